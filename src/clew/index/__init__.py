"""The query index in SQLite or PostgreSQL: derived from the lake, and rebuilt from it at any time."""
