"""The lake: Delta tables of events, readable by any engine."""
