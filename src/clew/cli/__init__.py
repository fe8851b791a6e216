"""The `clew` command line: a module per command, shared options, and text rendering."""
