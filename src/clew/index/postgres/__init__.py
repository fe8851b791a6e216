"""The index in a PostgreSQL database, for several who write and read."""
