"""MCP server: read-only lineage tools for AI agents.

- `server.py`: the tools
- `lineage_tools.py`, `describe_tools.py`: their implementation
- `schemas.py`: structured output
- `paging.py`: token budget, cursors, text formatting
"""
