"""Queries of neighbours and of edges at a point in time."""

from __future__ import annotations

from typing import NamedTuple

from clew.index.backends.base import Row
from clew.index.queries.entities import find_canonical_name
from clew.index.queries.reader import ALIASES_CTE, LATEST_ASSERTIONS, IndexReader, LatestAssertion

# Canonical name of the dataset at the other end.
_CANONICAL = "coalesce(canonical_namespace, {end}_namespace), coalesce(canonical_name, {end}_name)"
_JOIN_ALIASES = (
    "left join dataset_aliases on dataset_aliases.namespace = {end}_namespace and dataset_aliases.name = {end}_name"
)


def _with_canonical_name(query: str, end: str) -> str:
    return query.format(canonical=_CANONICAL.format(end=end), join_aliases=_JOIN_ALIASES.format(end=end))


_DATASETS_OF_JOB = _with_canonical_name(
    """select direction = 'INPUT', {canonical}, first_event_at from job_edges {join_aliases}
where job_namespace = ?1 and job_name = ?2""",
    "dataset",
)
_JOBS_OF_DATASET = f"""{ALIASES_CTE} select direction = 'INPUT', job_namespace, job_name, first_event_at from names
join job_edges on dataset_namespace = names.namespace and dataset_name = names.name"""  # noqa: S608
_ASSERTED_SOURCES = _with_canonical_name(
    f"""{ALIASES_CTE} select distinct {{canonical}}, event_time from names
join lineage_assertions on dataset_namespace = names.namespace and dataset_name = names.name
join edge_sets using (edge_set_id) {{join_aliases}} where job_name is null""",  # noqa: S608
    "source",
)
_ASSERTED_TARGETS = _with_canonical_name(
    f"""{ALIASES_CTE} select distinct {{canonical}}, event_time from names
join edge_sets on source_namespace = names.namespace and source_name = names.name
join lineage_assertions using (edge_set_id) {{join_aliases}} where job_name is null""",  # noqa: S608
    "dataset",
)
_ALIASES_OF = f"{ALIASES_CTE} select * from names"  # noqa: S608
_DOWNSTREAM = """select distinct dataset_namespace, dataset_name
from edge_sets join lineage_assertions using (edge_set_id) where source_namespace = ?1 and source_name = ?2"""
_LATEST_ASSERTIONS_ON = LATEST_ASSERTIONS.format(condition="dataset_namespace = ?2 and dataset_name = ?3")

_Name = tuple[str, str]


class Neighbour(NamedTuple):
    """A neighbour of a job or a dataset; `is_input` if the edge is a read."""

    is_input: bool
    name: _Name
    first_seen: int


class NeighbourQueries:
    """Queries for the neighbours of one node; `notebook_namespace` is that of in-memory DataFrames."""

    def __init__(self, index: IndexReader, notebook_namespace: str) -> None:
        self._index, self._notebook_namespace = index, notebook_namespace

    def datasets_of(self, job: _Name) -> list[Neighbour]:
        """Return the inputs and outputs of a job, by canonical name."""
        return [Neighbour(bool(row[0]), (row[1], row[2]), row[3]) for row in self._index.query(_DATASETS_OF_JOB, *job)]

    def jobs_of(self, dataset: _Name) -> list[Neighbour]:
        """Return the jobs that read or write a dataset under any of its aliases."""
        return [
            Neighbour(bool(row[0]), (row[1], row[2]), row[3]) for row in self._index.query(_JOBS_OF_DATASET, *dataset)
        ]

    def asserted_datasets(self, dataset: _Name, *, is_forward: bool) -> list[tuple[_Name, int]]:
        """Return the downstream or upstream datasets by lineage without a job, with the event time."""
        query = _ASSERTED_TARGETS if is_forward else _ASSERTED_SOURCES
        return [((row[0], row[1]), row[2]) for row in self._index.query(query, *dataset)]

    def aliases_of(self, dataset: _Name) -> list[_Name]:
        """Return all names of a dataset."""
        return [(row[0], row[1]) for row in self._index.query(_ALIASES_OF, *dataset)]

    def downstream_of(self, dataset: _Name) -> list[_Name]:
        """Return the datasets with column lineage from this name."""
        return [(row[0], row[1]) for row in self._index.query(_DOWNSTREAM, *dataset)]

    def latest_assertions(self, dataset: _Name) -> list[LatestAssertion]:
        """Return the latest assertion of each job on this name."""
        return [
            LatestAssertion._make(row)
            for row in self._index.query(_LATEST_ASSERTIONS_ON, self._notebook_namespace, *dataset)
        ]


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
