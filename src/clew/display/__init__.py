"""Display of lineage inside a notebook.

- `api.py`: `clew.lineage()`, `clew.explain()` and the widget
- `graph.py`: graph of a DataFrame's lineage, SVG picture
"""
