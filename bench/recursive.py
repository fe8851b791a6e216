"""Baseline of traversals: recursive CTEs on the tables of the index, without a graph in memory."""

from __future__ import annotations

import sqlite3
from pathlib import Path

_MAX_DEPTH = 20
# Each step goes from a dataset to the jobs that read it, and to what they write; or the other way.
_TABLE_QUERY = """
with recursive reached(name, depth) as (
    values (:name, 0)
    union
    select next.dataset_name, depth + 2 from reached
        join job_edges step on step.dataset_namespace = :namespace and step.dataset_name = reached.name
            and step.direction = :from_direction
        join job_edges next on next.job_namespace = step.job_namespace and next.job_name = step.job_name
            and next.direction = :to_direction
    where depth < :depth
)
select name, min(depth) from reached group by name
"""
_COLUMN_QUERIES = {
    "upstream": """
with recursive reached(name, field, depth) as (
    values (:name, :field, 0)
    union
    select source_name, source_column, depth + 1 from reached
        join lineage_assertions on dataset_namespace = :namespace and dataset_name = reached.name
        join edge_sets using (edge_set_id)
    where "column" = reached.field and depth < :depth
)
select name, field, min(depth) from reached group by name, field
""",
    "downstream": """
with recursive reached(name, field, depth) as (
    values (:name, :field, 0)
    union
    select dataset_name, "column", depth + 1 from reached
        join edge_sets on source_namespace = :namespace and source_name = reached.name
            and source_column = reached.field
        join lineage_assertions using (edge_set_id)
    where depth < :depth
)
select name, field, min(depth) from reached group by name, field
""",
}
_DIRECTIONS = {"upstream": ("OUTPUT", "INPUT"), "downstream": ("INPUT", "OUTPUT")}


class RecursiveQueries:
    """Lineage of tables and columns from an index in SQLite, both directions, by recursive CTEs."""

    def __init__(self, index: Path, namespace: str) -> None:
        self._connection = sqlite3.connect(f"file:{index}?mode=ro", uri=True)
        self._namespace = namespace

    def close(self) -> None:
        """Close the index."""
        self._connection.close()

    def table_lineage(self, name: str, depth: int = _MAX_DEPTH) -> list[tuple[str, int]]:
        """Return the tables that are reached from a table, with their distance in edges."""
        rows: list[tuple[str, int]] = []
        for from_direction, to_direction in _DIRECTIONS.values():
            parameters = {
                "name": name,
                "namespace": self._namespace,
                "from_direction": from_direction,
                "to_direction": to_direction,
                "depth": depth,
            }
            rows += self._connection.execute(_TABLE_QUERY, parameters).fetchall()
        return rows

    def column_lineage(self, name: str, field: str, depth: int = _MAX_DEPTH) -> list[tuple[str, str, int]]:
        """Return the columns that are reached from a column, with their distance in edges."""
        rows: list[tuple[str, str, int]] = []
        for query in _COLUMN_QUERIES.values():
            parameters = {"name": name, "field": field, "namespace": self._namespace, "depth": depth}
            rows += self._connection.execute(query, parameters).fetchall()
        return rows
