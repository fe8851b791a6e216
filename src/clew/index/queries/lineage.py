"""Queries of lineage assertions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from clew.events.notebook import NOTEBOOK_NAMESPACE
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
