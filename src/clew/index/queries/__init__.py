"""Queries of the index.

- `connection.py`: connection, snapshot and facets
- `records.py`: records that the queries of entities return
- `entities.py`: runs, jobs, datasets and versions
- `lists.py`: lists, counts and name search
- `reader.py`: the reader, with the queries of the modules above, and sessions and column edges
- `lineage.py`: lineage assertions, neighbours of a node
- `recent_changes.py`: what changed after a position of the log
"""
