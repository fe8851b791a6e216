"""PostgreSQL backend.

- `connection.py`: connection, rows, URL
- `dialect.py`: translation of SQL
- `schema.py`: tables
- `store.py`: open, staging, swap
- `writer.py`: COPY to staging tables, merge
"""
