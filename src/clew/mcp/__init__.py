"""MCP server: read-only lineage tools for AI agents."""
