"""Queries of lineage assertions and of neighbours."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.queries.connection import ALIASES_CTE
from clew.index.queries.entities import to_json_array
from clew.index.queries.reader import IndexReader

_Name = tuple[str, str]
# Event time and sequence number of an assertion.
Position = tuple[int, int]
NOW: Final[Position] = (2**62, 0)


class LatestAssertion(NamedTuple):
    """Latest assertion of a job, or without a job, on a dataset. Retracted lineage has an empty `edge_set_id`."""

    job_namespace: str | None
    job_name: str | None
    dataset_namespace: str
    dataset_name: str
    dataset_version: str
    session_id: str | None
    run_uuid: str | None
    edge_set_id: str
    event_time: int
    seq: int

    @property
    def job(self) -> _Name | None:
        """Name of the job."""
        return None if self.job_name is None else (self.job_namespace or "", self.job_name)

    @property
    def position(self) -> Position:
        """Event time and sequence number. Sessions may be ingested late, so event time decides first."""
        return self.event_time, self.seq


# The latest assertion of each job on each dataset, under any of its names; on in-memory DataFrames, for each version.
# An explicit lineage facet takes precedence over a columnLineage facet of the same run.
_LATEST_ASSERTIONS = f"""select {", ".join(LatestAssertion._fields)} from (
    select assertion.*, rank() over (
        partition by job_namespace, job_name,
            coalesce(canonical_namespace, dataset_namespace), coalesce(canonical_name, dataset_name),
            case when dataset_namespace = '{NOTEBOOK_NAMESPACE}' then dataset_version else '' end
        order by event_time desc, seq desc) as recency
    from {{assertions}} left join dataset_aliases alias
        on alias.namespace = dataset_namespace and alias.name = dataset_name
    where (event_time, seq) < (?1, ?2) and {{condition}} and (origin = 'lineage' or not exists (
        select 1 from lineage_assertions explicit where explicit.asserted_by = assertion.asserted_by
        and explicit.dataset_namespace = assertion.dataset_namespace
        and explicit.dataset_name = assertion.dataset_name and explicit.origin = 'lineage'
        and explicit.edge_set_id != ''))
) ranked where recency = 1
order by coalesce(job_namespace, ''), coalesce(job_name, ''), dataset_namespace, dataset_name, dataset_version"""  # noqa: S608
_ASSERTIONS_ON = """(select value ->> 0 as namespace, value ->> 1 as name from json_each(?3) named) wanted
    cross join lineage_assertions assertion
        on dataset_namespace = wanted.namespace and dataset_name = wanted.name"""
_ALL_LATEST = _LATEST_ASSERTIONS.format(assertions="lineage_assertions assertion", condition="true")
_LATEST_ON = _LATEST_ASSERTIONS.format(assertions=_ASSERTIONS_ON, condition="true")
_LATEST_IN_SESSION = _LATEST_ASSERTIONS.format(assertions=_ASSERTIONS_ON, condition="session_id = ?4")


def all_latest_assertions(index: IndexReader) -> Iterator[LatestAssertion]:
    """Yield the latest assertion of each job on each dataset; those of notebooks come last."""
    in_sessions = []
    for row in index.stream(_ALL_LATEST, *NOW):
        assertion = LatestAssertion._make(row)
        if assertion.session_id is None:
            yield assertion
        else:
            in_sessions.append(assertion)
    yield from _latest_sessions(in_sessions)


def latest_assertions(
    index: IndexReader, names: Collection[_Name], before: Position = NOW, session_id: str | None = None
) -> list[LatestAssertion]:
    """Return the latest assertion of each job on datasets, given with all their names.

    `before`: only assertions before that position. `session_id`: only those of a notebook session.
    """
    values = (*before, to_json_array(list(names)))
    query = (_LATEST_ON, *values) if session_id is None else (_LATEST_IN_SESSION, *values, session_id)
    return _latest_sessions(map(LatestAssertion._make, index.stream(*query)))


def _latest_sessions(assertions: Iterable[LatestAssertion]) -> list[LatestAssertion]:
    """Keep the latest session of each notebook on each dataset: the operations of a notebook count as one job."""
    assertions = list(assertions)
    in_sessions = [assertion for assertion in assertions if assertion.session_id is not None]
    latest = {
        _notebook_key(assertion): assertion.session_id
        for assertion in sorted(in_sessions, key=lambda assertion: assertion.position)
    }
    return [
        assertion
        for assertion in assertions
        if assertion.session_id is None or assertion.session_id == latest[_notebook_key(assertion)]
    ]


def _notebook_key(assertion: LatestAssertion) -> tuple[str | None, ...]:
    notebook = (assertion.job_name or "").rsplit("/", 2)[0]
    return assertion.job_namespace, notebook, assertion.dataset_namespace, assertion.dataset_name


# Canonical name of the dataset at the other end.
_CANONICAL = "coalesce(canonical_namespace, {end}_namespace), coalesce(canonical_name, {end}_name)"
_JOIN_ALIASES = (
    "left join dataset_aliases on dataset_aliases.namespace = {end}_namespace and dataset_aliases.name = {end}_name"
)


def _with_canonical_name(query: str, end: str) -> str:
    return query.format(canonical=_CANONICAL.format(end=end), join_aliases=_JOIN_ALIASES.format(end=end))


_DATASETS_OF_JOB = _with_canonical_name(
    """select direction = 'INPUT', {canonical}, first_event_at from job_edges {join_aliases}
where job_namespace = ?1 and job_name = ?2 order by last_event_at desc, 2, 3""",
    "dataset",
)
_JOBS_OF_DATASET = f"""{ALIASES_CTE} select direction = 'INPUT', job_namespace, job_name, first_event_at from names
join job_edges on dataset_namespace = names.namespace and dataset_name = names.name
order by last_event_at desc, 2, 3"""  # noqa: S608
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
_DOWNSTREAM = """select distinct dataset_namespace, dataset_name
from edge_sets join lineage_assertions using (edge_set_id) where source_namespace = ?1 and source_name = ?2"""


class Neighbour(NamedTuple):
    """A neighbour of a job or a dataset; `is_input` if the edge is a read."""

    is_input: bool
    name: _Name
    first_seen: int


class NeighbourQueries:
    """Queries for the neighbours of one node."""

    def __init__(self, index: IndexReader) -> None:
        self._index = index

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

    def downstream_of(self, dataset: _Name) -> list[_Name]:
        """Return the datasets with column lineage from this name."""
        return [(row[0], row[1]) for row in self._index.query(_DOWNSTREAM, *dataset)]
