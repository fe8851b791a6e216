"""PostgreSQL backend of the index, for writers and readers on several machines."""
