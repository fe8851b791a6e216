"""The page and the API over HTTP; all answers come from clew.query."""
