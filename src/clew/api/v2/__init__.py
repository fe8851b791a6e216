"""`/api/v2`: lineage, entities, facets, diffs, search.

- `operation.py`: declaration of operations and parameters
- `routes.py`: Starlette routes and OpenAPI document
- `lineage.py`, `entities.py`, `notebook_runs.py`: the operations
"""
