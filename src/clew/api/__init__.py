"""HTTP API and web UI; all data comes from clew.query."""
