"""Append-only event log. The collector and the file import write it; the pipeline reads it.

- `segments.py`: segments, records, ranges; reading
- `writer.py`: `LogWriter`: append, sync, deduplicate
- `staging.py`: segments that imports write and the writer adopts
- `retention.py`: delete old segments, overwrite lines; lag of the consumers
"""
