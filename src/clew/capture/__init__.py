"""Capture of notebooks and scripts: records operations on data and writes them as three event streams."""
