"""`/api/v1`: Marquez's API.

- `app.py`: router, compression, thread pool
- `http.py`: requests and responses
- `read_handlers.py`, `write_handlers.py`, `lineage.py`: the handlers
- `schemas.py`: documents of responses
"""
