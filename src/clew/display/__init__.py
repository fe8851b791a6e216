"""Display of lineage inside a notebook.

- `api.py`: `clew.lineage()` and `clew.explain()`
- `graph.py`: graph of a DataFrame's lineage, SVG picture
- `widget.py`: anywidget of the picture
"""
