"""The answers for agents, by the Model Context Protocol: a few read-only tools over `clew.query`."""
