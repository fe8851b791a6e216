"""Append-only event log. The collector and the file import write it; the pipeline reads it.

- `segments.py`: segments, records, ranges; reading
- `writer.py`: `LogWriter`: append, sync, deduplicate
- `retention.py`: delete old segments; lag of the consumers
"""
