"""Collector: receives events over HTTP or from files and appends them to the log."""
