"""Lake: Delta tables of events, facets and derived lineage.

Only the pipeline writes. A batch writes Parquet files first (`event_rows.py`, `data_files.py`) and then commits them
table by table (`lake.py`), each commit with the batch as its Delta `txn`, so that a repeated batch changes nothing.

- `schemas.py`: tables and columns
- `lake.py`: open, append, overwrite, replace files
- `manifest.py`: manifest and integrity checks
- `file_check.py`: checks of data files
- `storage.py`, `bucket.py`: files in a directory or a bucket; `providers.py`: S3, Google Cloud Storage and Azure
- `objects.py`: objects of a bucket with events to import
- `event_rows.py`, `facet_columns.py`: events to Arrow batches
- `data_files.py`: Parquet files and Delta statistics
- `compaction.py`: compact, vacuum, delete old rows
- `scan.py`, `facets.py`: read events and facets back
- `refresh_state.py`: position up to which derived tables contain events
- `backfill_state.py`: raw-only events and backfilled ranges
- `history.py`: commit history, table sizes, pending backfills
"""
