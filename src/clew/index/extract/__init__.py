"""Extraction: rows of the index from events.

- `extractor.py`: event to `ChangeSet`
- `context.py`: the event being processed, and its precedence
- `runs.py`, `datasets.py`, `lineage.py`: rows per kind of entity
"""
