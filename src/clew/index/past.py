"""Column edges as of a time."""

from __future__ import annotations

from typing import NamedTuple

from clew.index.entities import find_canonical_name
from clew.index.reader import ALIASES_CTE, IndexReader, Row

# A later assertion of a job on a dataset replaces the earlier one; in-memory DataFrames have versions within a session.
_EDGES_AS_OF = """select * from column_edges edges where event_time <= ?4 and {where} and not exists (
    select 1 from lineage_assertions later where later.dataset_namespace = edges.dataset_namespace
    and later.dataset_name = edges.dataset_name
    and (later.dataset_namespace != ?5 or later.dataset_version = edges.dataset_version)
    and later.job_namespace is not distinct from edges.job_namespace
    and later.job_name is not distinct from edges.job_name
    and later.event_time <= ?4 and (later.event_time, later.seq) > (edges.event_time, edges.seq))
order by dataset_namespace, dataset_name, edge_position"""
_IS_TARGET = """(dataset_namespace, dataset_name) in (select * from names)
and ("column" = ?3 or "column" is null or ?3 is null)"""
_IS_SOURCE = """(source_namespace, source_name) in (select * from names)
and (source_column = ?3 or source_column is null or ?3 is null)"""
_INTO = " ".join((ALIASES_CTE, _EDGES_AS_OF.format(where=_IS_TARGET)))
_FROM = " ".join((ALIASES_CTE, _EDGES_AS_OF.format(where=_IS_SOURCE)))
_RENAMED = """select to_namespace, to_name from renames where namespace = ?1 and name = ?2 and renamed_at <= ?3"""
_RENAMED_FROM = """select namespace, name from renames where to_namespace = ?1 and to_name = ?2 and renamed_at <= ?3"""

_ColumnName = tuple[str, str, str | None]


class AsOfEdge(NamedTuple):
    """A column edge with the job that asserted it."""

    source: _ColumnName
    target: _ColumnName
    type: str
    subtype: str | None
    description: str | None
    masking: int | None
    job: tuple[str, str] | None


class AsOfColumnEdges:
    """Column edges and renames as of a time; `notebook_namespace` is that of in-memory DataFrames."""

    def __init__(self, index: IndexReader, as_of: int, notebook_namespace: str) -> None:
        self._index, self._as_of, self._notebook_namespace = index, as_of, notebook_namespace

    def edges(self, namespace: str, name: str, column: str | None, *, is_forward: bool) -> list[AsOfEdge]:
        """Return the edges from or into a column, including those of the whole dataset; None means any column."""
        query = _FROM if is_forward else _INTO
        rows = self._index.query(query, namespace, name, column, self._as_of, self._notebook_namespace)
        return [_edge(row) for row in rows]

    def renames(self, namespace: str, name: str, *, is_forward: bool) -> list[tuple[str, str]]:
        """Return the next or the previous names of a renamed dataset."""
        query = _RENAMED if is_forward else _RENAMED_FROM
        return [(row[0], row[1]) for row in self._index.query(query, namespace, name, self._as_of)]

    def canonical_name(self, namespace: str, name: str) -> tuple[str, str]:
        """Return the canonical name of a dataset."""
        row = find_canonical_name(self._index, namespace, name)
        return (namespace, name) if row is None else (row["canonical_namespace"], row["canonical_name"])


def _edge(row: Row) -> AsOfEdge:
    return AsOfEdge(
        (row["source_namespace"], row["source_name"], row["source_column"]),
        (row["dataset_namespace"], row["dataset_name"], row["column"]),
        row["type"],
        row["subtype"],
        row["description"],
        row["masking"],
        None if row["job_name"] is None else (row["job_namespace"] or "", row["job_name"]),
    )
