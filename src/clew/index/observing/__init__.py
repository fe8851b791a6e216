"""Extraction of index rows from events, one module per kind of row."""
