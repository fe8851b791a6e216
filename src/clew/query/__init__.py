"""Queries on the index and the lake: resolve a name, load an entity or traverse a graph. No HTTP and no Spark."""
