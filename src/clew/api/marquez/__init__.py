"""`/api/v1`: Marquez's API.

- `app.py`: router, compression, thread pool
- `http.py`: requests and responses
- `read_handlers.py`, `lineage.py`: GET
- `write_handlers.py`: tags, namespaces, sources and deletion
- `event_handlers.py`: deprecated requests that become OpenLineage events
- `revivals.py`: deleted jobs and datasets that an event names again
- `schemas.py`: documents of responses
"""
