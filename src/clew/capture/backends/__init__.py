"""Backends: one package per DataFrame library, with the same file names for the same roles.

- `base.py`: DataFrames of libraries other than pandas
- `sql_lineage.py`: column lineage of a SQL query
- `pandas/`, `polars/`, `duckdb/`: patches and rules of each library
"""
