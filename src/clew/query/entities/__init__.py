"""Entities: runs, jobs, datasets, facets and the catalog.

- `model.py`: the entities, and version ids
- `runs.py`, `datasets.py`: load runs, jobs and datasets
- `facets.py`: facets now and over time
- `catalog.py`: lists, counts, sources, statistics, raw events
- `unindexed.py`: entities with events that are not indexed yet
- `aliases.py`: former addresses of jobs and versions, written by an import
- `annotations.py`: tags, descriptions and soft deletes set by users
"""
