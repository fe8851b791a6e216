"""Queries of the index.

- `reader.py`: connection, snapshot, sessions and column edges
- `entities.py`: runs, jobs, datasets and versions
- `lineage.py`: neighbours of a node, edges at a time
- `lists.py`: lists, counts and name search
"""
