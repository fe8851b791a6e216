"""Display lineage inside a notebook: as SVG, as text and as a widget."""
