"""The record: Delta tables, open to any engine."""
