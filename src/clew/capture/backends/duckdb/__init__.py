"""DuckDB backend.

- `backend.py`: patches of connections, relations and `mo.sql`
- `query.py`: queries, relation methods as SQL, files read and written
"""
