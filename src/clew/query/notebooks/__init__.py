"""Notebook sessions: cells, operations, dataset states, reports."""
