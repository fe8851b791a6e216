"""Shared HTTP server: listening, authentication, rate limits and the fast path."""
