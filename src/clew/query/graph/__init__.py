"""Graphs of jobs, datasets and columns, and their traversal."""
