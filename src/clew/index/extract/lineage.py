"""Rows of lineage assertions, and of the cells and operations of notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import structs

from clew.events.column_lineage import (
    ENTRIES_KEY,
    JOB,
    LINEAGE_FACET,
    RETRACTED,
    LineageAssertion,
    LineageLink,
    compute_edge_set_id,
    filter_datasets,
    filter_jobs,
    parse_asserted_edges,
    parse_assertions,
    parse_links,
    source_datasets,
)
from clew.events.facets import Name, cached_by_bytes
from clew.events.notebook import DataFrameEvent, RuntimeEvent, flatten_dataframe, flatten_runtime
from clew.events.openlineage import parse_time, to_epoch_micros
from clew.index.changes import (
    AssertionRow,
    CellRow,
    EdgeRow,
    EventContext,
    JobDependenciesRow,
    OperationRow,
    StaticLineageRow,
    TableRow,
)
from clew.index.extract.datasets import dataset_row, implied_io_row, job_edge_row


class EdgeSet(NamedTuple):
    """Edges of an assertion; None if it is a retraction."""

    edge_set_id: str
    sources: tuple[Name, ...]
    edges: list[EdgeRow] | None


# Most runs of a job assert the same lineage.
@cached_by_bytes
def _parse_tagged_body(tagged_body: bytes) -> EdgeSet:
    edge_set_id, edges = compute_edge_set_id(tagged_body), parse_asserted_edges(tagged_body)
    if edges is None:
        return EdgeSet(edge_set_id, (), None)
    rows = [EdgeRow(edge_set_id, position, *structs.astuple(edge)) for position, edge in enumerate(edges)]
    return EdgeSet(edge_set_id, source_datasets(edges), rows)


def lineage_rows(context: EventContext) -> Iterator[TableRow | EdgeSet]:
    """Yield the rows of the event's lineage facets."""
    assertions = parse_assertions(context.event)
    if assertions:
        yield from _assertion_rows(assertions, context)
    job = context.event.job
    if job is not None and job.facets and LINEAGE_FACET in job.facets:
        yield from _explicit_lineage_rows(bytes(job.facets[LINEAGE_FACET]), (job.namespace, job.name), context)


def _assertion_rows(assertions: Iterable[LineageAssertion], context: EventContext) -> Iterator[TableRow | EdgeSet]:
    inputs = _listed_inputs(context)
    for assertion in assertions:
        edge_set = _parse_tagged_body(assertion.tagged_body)
        yield edge_set
        dataset = assertion.dataset_namespace, assertion.dataset_name
        yield AssertionRow(
            context.asserted_by,
            *dataset,
            assertion.dataset_version or "",
            assertion.origin,
            context.seq,
            context.event_time,
            context.run_uuid,
            *context.job,
            context.event.session_id,
            RETRACTED if edge_set.edges is None else edge_set.edge_set_id,
            context.order_time,
        )
        yield dataset_row(dataset, context)
        for source in edge_set.sources:
            if source not in inputs:
                yield from _implied_input_rows(source, context)


def _implied_input_rows(source: Name, context: EventContext) -> Iterator[TableRow]:
    """Yield the rows of an input that only lineage mentions."""
    yield dataset_row(source, context)
    if context.event.kind != "DATASET":
        if context.run_uuid is not None:
            yield implied_io_row(source, context)
        job = context.event.job
        if job is not None:
            yield job_edge_row((job.namespace, job.name), "INPUT", source, context, is_implied=True)


def _explicit_lineage_rows(facet: bytes, own_job: Name, context: EventContext) -> Iterator[TableRow]:
    asserted_by = context.asserted_by
    if context.run_uuid is None:
        yield StaticLineageRow(asserted_by, context.seq, context.order_time, ENTRIES_KEY.encode() in facet)
    for link in parse_links(facet, own_job):
        if link.target.type == JOB:
            yield from _job_dependency_rows(asserted_by, link, own_job, context)
        else:
            for job in filter_jobs(link.sources):
                yield job_edge_row(job, "OUTPUT", link.name, context, is_implied=True)


def _job_dependency_rows(
    asserted_by: str, link: LineageLink, own_job: Name, context: EventContext
) -> Iterator[TableRow]:
    upstream = json.dumps(filter_jobs(link.sources))
    yield JobDependenciesRow(
        asserted_by, *link.name, context.seq, context.event_time, context.run_uuid, upstream, context.order_time
    )
    inputs = _listed_inputs(context)
    for source in filter_datasets(link.sources):
        yield dataset_row(source, context)
        yield job_edge_row(link.name, "INPUT", source, context, is_implied=True)
        if link.name == own_job and source not in inputs:
            yield from _implied_input_rows(source, context)


def _listed_inputs(context: EventContext) -> set[Name]:
    return {(dataset.namespace, dataset.name) for dataset in context.event.inputs or ()}


_CELL_STATES = {"cell_execution_error": "failed", "cell_execution_end": "completed"}
# The greatest rank decides.
_CELL_STATE_RANKS = {"running": 0, "completed": 1, "stopped": 2, "failed": 3}


def cell_row(event: RuntimeEvent, seq: int) -> CellRow:
    """Convert a runtime event to a row."""
    at = to_epoch_micros(parse_time(event.timestamp))
    state = "stopped" if event.stopped else _CELL_STATES.get(event.event_type, "running")
    return CellRow(
        **_members_of(CellRow, flatten_runtime(event)),
        started_at=at if event.event_type == "cell_execution_start" else None,
        ended_at=at if event.event_type in _CELL_STATES else None,
        state=state,
        state_rank=_CELL_STATE_RANKS[state],
        first_seq=seq,
        last_seq=seq,
    )


def operation_row(event: DataFrameEvent, event_id: str, seq: int) -> OperationRow:
    """Convert a DataFrame event to a row."""
    values = flatten_dataframe(event)
    return OperationRow(
        **_members_of(OperationRow, values),
        # Events of older agents have no run id.
        operation_id=event.run_id or event_id,
        inputs=json.dumps(values["input_dataframes"]),
        outputs=json.dumps(values["output_dataframes"]),
        event_time=to_epoch_micros(parse_time(event.timestamp)),
        last_seq=seq,
    )


def _members_of(row_type: type[TableRow], values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that have a column."""
    return {name: values[name] for name in row_type.__struct_fields__ if name in values}
