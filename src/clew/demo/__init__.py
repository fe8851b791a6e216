"""Demo: capture a notebook, ingest its events and trace one column."""
