"""Queries of the index.

- `reader.py`: connection, snapshot, sessions and column edges
- `entities.py`: runs, jobs, datasets and versions
- `lineage.py`: lineage assertions, neighbours of a node
- `lists.py`: lists, counts and name search
"""
