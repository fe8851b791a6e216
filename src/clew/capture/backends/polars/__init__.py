"""polars backend.

- `backend.py`: install and uninstall; eager and lazy recording
- `rules.py`: rules of the methods
- `expressions.py`: columns that an expression reads
"""
