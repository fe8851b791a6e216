"""Imports from Marquez and from event files, their comparison, and the export of everything.

- `importer.py`: the imports: plan, copy, append, ingest
- `marquez_database.py`: connection, schema and plan of a Marquez database
- `staging_task.py`: Spark task that copies rows to staged segments of the log
- `handover.py`: append staged segments, also while a collector holds the log
- `ingestion.py`: ingest imported events, then backfill their facets
- `marquez_api.py`: a Marquez server as source
- `event_files.py`: files and S3 objects as source
- `entities.py`, `database_entities.py`: what is not in events: tags, owners, deletions, entities made by PUT
- `state.py`: positions and hashes, so that imports continue and can be repeated
- `comparison.py`: compare Marquez with clew
- `export.py`: write all events and annotations
"""
