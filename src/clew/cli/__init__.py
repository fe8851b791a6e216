"""The terminal: each module a command."""
