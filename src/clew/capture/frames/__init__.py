"""The pandas backend: lineage attached to Series, versions attached to frames, one record per user operation."""
