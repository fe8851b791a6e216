"""Edges of one job, dataset or column, for traversals that query the index step by step."""

from __future__ import annotations

from typing import NamedTuple

from clew.index.reader import ALIASES_CTE, IndexReader
from clew.index.said import LATEST_ASSERTIONS, LatestAssertion

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
