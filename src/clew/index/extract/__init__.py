"""Extraction: rows of the index from events.

- `extractor.py`: event to `ChangeSet`
- `runs.py`, `datasets.py`, `lineage.py`: rows per kind of entity
"""
