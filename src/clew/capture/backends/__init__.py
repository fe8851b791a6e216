"""Backends: one package per DataFrame library, with the same file names for the same roles.

- `base.py`: the interface `Backend` and its registry; patching, call tracing and recording for all of them
- `sql_lineage.py`: column lineage of a SQL query
- `sql_query.py`: SQL that was run: databases, records of queries, statements that write, cursors
- `pandas/`, `polars/`, `duckdb/`: the implementations, in `backend.py`, and the rules of each library
- `consumers.py`: charts, models and tables that read frames
"""
