"""DuckDB backend.

- `backend.py`: patches of connections, relations and `mo.sql`; relation methods as SQL
"""
