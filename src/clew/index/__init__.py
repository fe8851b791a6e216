"""Query index: a database of current entities and lineage, in SQLite or PostgreSQL.

Write: `extract/` (event to rows) -> `changes.py` (`ChangeSet`) -> `merge_rules.py` (upserts) -> `writer.py`.
Read: `queries/`. Databases: `backends/`. `encoding.py` has composite keys and compressed facets.
`visibility.py` limits a connection to namespaces.
"""
