"""Marquez's API under `/api/v1`: its paths and shapes, with corrected values."""
