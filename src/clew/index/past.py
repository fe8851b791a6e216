"""Column edges as jobs had stated them last up to some time."""

from __future__ import annotations

from typing import NamedTuple

from clew.index.entities import node_row
from clew.index.reader import NAMES, IndexReader, Row

# A job that says something else of a dataset has said nothing else before; frames have versions within one session.
_STATED = """select * from column_edges edges where event_time <= ?4 and {where} and not exists (
    select 1 from statements later where later.dataset_namespace = edges.dataset_namespace
    and later.dataset_name = edges.dataset_name
    and (later.dataset_namespace != ?5 or later.dataset_version = edges.dataset_version)
    and later.job_namespace is not distinct from edges.job_namespace
    and later.job_name is not distinct from edges.job_name
    and later.event_time <= ?4 and (later.event_time, later.seq) > (edges.event_time, edges.seq))
order by dataset_namespace, dataset_name, ordinal"""
_INTO_IT = """(dataset_namespace, dataset_name) in (select * from names)
and ("column" = ?3 or "column" is null or ?3 is null)"""
_FROM_IT = """(source_namespace, source_name) in (select * from names)
and (source_column = ?3 or source_column is null or ?3 is null)"""
_INTO = " ".join((NAMES, _STATED.format(where=_INTO_IT)))
_FROM = " ".join((NAMES, _STATED.format(where=_FROM_IT)))
_RENAMED = """select to_namespace, to_name from renames where namespace = ?1 and name = ?2 and renamed_at <= ?3"""
_RENAMED_FROM = """select namespace, name from renames where to_namespace = ?1 and to_name = ?2 and renamed_at <= ?3"""

_ColumnName = tuple[str, str, str | None]


class PastEdge(NamedTuple):
    """An edge, and who had stated it."""

    source: _ColumnName
    target: _ColumnName
    type: str
    subtype: str | None
    description: str | None
    masking: int | None
    job: tuple[str, str] | None


class PastIndex:
    """An index as of a time; `frames` is the namespace of datasets in memory."""

    def __init__(self, index: IndexReader, as_of: int, frames: str) -> None:
        self._index, self._as_of, self._frames = index, as_of, frames

    def edges(self, namespace: str, name: str, column: str | None, *, is_forward: bool) -> list[PastEdge]:
        """The edges from or into a column of a dataset, those of the whole dataset included; without one, of any."""
        query = _FROM if is_forward else _INTO
        rows = self._index.ask(query, namespace, name, column, self._as_of, self._frames)
        return [_edge(row) for row in rows]

    def renamed(self, namespace: str, name: str, *, is_forward: bool) -> list[tuple[str, str]]:
        """What a dataset was called next, or before."""
        query = _RENAMED if is_forward else _RENAMED_FROM
        return [(row[0], row[1]) for row in self._index.ask(query, namespace, name, self._as_of)]

    def node(self, namespace: str, name: str) -> tuple[str, str]:
        """The name of the node that a name is of."""
        row = node_row(self._index, namespace, name)
        return (namespace, name) if row is None else (row["node_namespace"], row["node_name"])


def _edge(row: Row) -> PastEdge:
    return PastEdge(
        (row["source_namespace"], row["source_name"], row["source_column"]),
        (row["dataset_namespace"], row["dataset_name"], row["column"]),
        row["type"],
        row["subtype"],
        row["description"],
        row["masking"],
        None if row["job_name"] is None else (row["job_namespace"] or "", row["job_name"]),
    )
