"""The lineage graph as arrays: which jobs, datasets and columns feed which, kept in memory by whoever answers."""
