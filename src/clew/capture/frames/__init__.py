"""Capture of pandas: provenance on Series, versions on frames, one record per operation of the user."""
