"""Rows of lineage assertions, and of the cells and operations of notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from msgspec import structs

from clew.events.column_lineage import (
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
from clew.events.notebook import DataFrameEvent, FrameInfo, RuntimeEvent, frame_to_dict
from clew.events.openlineage import parse_time, to_epoch_micros
from clew.index.changes import AssertionRow, CellRow, EdgeRow, JobDependenciesRow, OperationRow, StaticLineageRow
from clew.index.encoding import entity_key
from clew.index.extract.context import EventContext, EventPrecedence
from clew.index.extract.datasets import DatasetCollector, IoCollector


class _ParsedAssertion(NamedTuple):
    """Edges of an assertion; None if it is a retraction."""

    edge_set_id: str
    sources: tuple[Name, ...]
    edges: list[EdgeRow] | None


# Most runs of a job assert the same lineage.
@cached_by_bytes
def _parse_tagged_body(tagged_body: bytes) -> _ParsedAssertion:
    edge_set_id, edges = compute_edge_set_id(tagged_body), parse_asserted_edges(tagged_body)
    if edges is None:
        return _ParsedAssertion(edge_set_id, (), None)
    rows = [EdgeRow(edge_set_id, position, *structs.astuple(edge)) for position, edge in enumerate(edges)]
    return _ParsedAssertion(edge_set_id, source_datasets(edges), rows)


class AssertionCollector:
    """Collect the last assertion of each asserter on each dataset, the edge sets, and implied inputs."""

    def __init__(self, datasets: DatasetCollector, io: IoCollector, precedence: EventPrecedence) -> None:
        self._precedence = precedence
        self._datasets = datasets
        self._io = io
        self._assertions: dict[tuple[str, ...], AssertionRow] = {}
        self._job_dependencies: dict[tuple[str, ...], JobDependenciesRow] = {}
        self._static_lineage: dict[str, StaticLineageRow] = {}
        self._edge_sets: dict[str, list[EdgeRow]] = {}

    def add(self, context: EventContext) -> None:
        """Add an event that may have lineage facets."""
        assertions = parse_assertions(context.event)
        if assertions:
            self._add_assertions(assertions, context)
        job = context.event.job
        if job is not None and job.facets and LINEAGE_FACET in job.facets:
            self._add_explicit_lineage(bytes(job.facets[LINEAGE_FACET]), (job.namespace, job.name), context)

    def _add_assertions(self, assertions: Iterable[LineageAssertion], context: EventContext) -> None:
        inputs = {(dataset.namespace, dataset.name) for dataset in context.event.inputs or ()}
        for assertion in assertions:
            parsed = _parse_tagged_body(assertion.tagged_body)
            if parsed.edges is not None:
                self._edge_sets[parsed.edge_set_id] = parsed.edges
            self._add_assertion(assertion, RETRACTED if parsed.edges is None else parsed.edge_set_id, context)
            for source in parsed.sources:
                if source not in inputs:
                    self._add_implied_input(source, context)

    def _add_assertion(self, assertion: LineageAssertion, edge_set_id: str, context: EventContext) -> None:
        dataset = assertion.dataset_namespace, assertion.dataset_name
        key = _asserter(context), *dataset, assertion.dataset_version or "", assertion.origin
        session_id = context.event.session_id
        if self._supersedes(self._assertions.get(key), context):
            self._assertions[key] = AssertionRow(
                *key, context.seq, context.event_time, context.run_uuid, *context.job, session_id, edge_set_id
            )
        self._datasets.add(*dataset, context)

    def _supersedes(
        self, existing: AssertionRow | JobDependenciesRow | StaticLineageRow | None, context: EventContext
    ) -> bool:
        return existing is None or self._precedence.supersedes(context, existing.seq)

    def _add_implied_input(self, source: Name, context: EventContext) -> None:
        """Add an input that only lineage mentions."""
        self._datasets.add(*source, context)
        if context.event.kind != "DATASET":
            self._io.add_implied_input(source, context)

    def _add_explicit_lineage(self, facet: bytes, own_job: Name, context: EventContext) -> None:
        asserted_by = _asserter(context)
        if context.run_uuid is None and self._supersedes(self._static_lineage.get(asserted_by), context):
            self._static_lineage[asserted_by] = StaticLineageRow(asserted_by, context.seq)
        for link in parse_links(facet, own_job):
            if link.target.type == JOB:
                self._add_job_dependencies(asserted_by, link, own_job, context)
            else:
                for job in filter_jobs(link.sources):
                    self._io.add_job_edge(job, "OUTPUT", link.name, context)

    def _add_job_dependencies(self, asserted_by: str, link: LineageLink, own_job: Name, context: EventContext) -> None:
        key = asserted_by, *link.name
        upstream = json.dumps(filter_jobs(link.sources))
        if self._supersedes(self._job_dependencies.get(key), context):
            self._job_dependencies[key] = JobDependenciesRow(
                *key, context.seq, context.event_time, context.run_uuid, upstream
            )
        inputs = {(dataset.namespace, dataset.name) for dataset in context.event.inputs or ()}
        for source in filter_datasets(link.sources):
            self._datasets.add(*source, context)
            self._io.add_job_edge(link.name, "INPUT", source, context)
            if link.name == own_job and source not in inputs:
                self._add_implied_input(source, context)

    def assertions(self) -> Iterable[AssertionRow]:
        """Return the last assertions."""
        return self._assertions.values()

    def edges(self) -> Iterable[EdgeRow]:
        """Return the edges of all edge sets."""
        return chain.from_iterable(self._edge_sets.values())

    def job_dependencies(self) -> Iterable[JobDependenciesRow]:
        """Return the upstream jobs of jobs."""
        return self._job_dependencies.values()

    def static_lineage(self) -> Iterable[StaticLineageRow]:
        """Return the position of the last static lineage of each asserter."""
        return self._static_lineage.values()


def _asserter(context: EventContext) -> str:
    """Return the key of the run, job or dataset that makes the event's assertions."""
    event = context.event
    if context.run_uuid is not None or event.dataset is None or event.kind != "DATASET":
        return context.run_uuid or entity_key(*context.job)
    # One part more than the key of a job, so that a job and a dataset of the same name differ.
    return entity_key(event.dataset.namespace, event.dataset.name, None)


_CELL_STATES = {"cell_execution_error": "failed", "cell_execution_end": "completed"}


def cell_row(event: RuntimeEvent, seq: int) -> CellRow:
    """Convert a runtime event to a row."""
    at = to_epoch_micros(parse_time(event.timestamp))
    is_start = event.event_type == "cell_execution_start"
    state = "stopped" if event.stopped else _CELL_STATES.get(event.event_type, "running")
    error = event.error_info
    return CellRow(
        session_id=event.session_id,
        execution_id=event.execution_id,
        notebook=event.notebook,
        cell_id=event.cell_id,
        cell_name=event.cell_name,
        cell_index=event.cell_index,
        cell_source=event.cell_source,
        started_at=at if is_start else None,
        ended_at=at if event.event_type in _CELL_STATES else None,
        start_memory_mb=event.start_memory_mb,
        end_memory_mb=event.end_memory_mb,
        duration_ms=event.duration_ms,
        error_type=None if error is None else error.error_type,
        error_message=None if error is None else error.error_message,
        traceback=None if error is None else error.traceback,
        state=state,
        first_seq=seq,
        last_seq=seq,
    )


def operation_row(event: DataFrameEvent, event_id: str, seq: int) -> OperationRow:
    """Convert a DataFrame event to a row."""
    performance = event.performance
    return OperationRow(
        session_id=event.session_id,
        # Events of older agents have no run id.
        operation_id=event.run_id or event_id,
        run_uuid=event.run_id,
        execution_id=event.execution_id,
        cell_id=event.cell_id,
        cell_name=event.cell_name,
        notebook=event.notebook,
        operation_type=event.operation_type,
        operation_method=event.operation_method,
        operation_code=event.operation_code,
        line=event.line,
        end_line=event.end_line,
        count=event.count,
        inputs=_frames(event.input_dataframes),
        outputs=_frames(event.output_dataframes),
        event_time=to_epoch_micros(parse_time(event.timestamp)),
        overhead_ms=None if performance is None else performance.overhead_ms,
        duration_ms=None if performance is None else performance.duration_ms,
        df_size_mb=None if performance is None else performance.df_size_mb,
        last_seq=seq,
    )


def _frames(frames: list[FrameInfo] | None) -> str:
    return json.dumps([frame_to_dict(frame) for frame in frames or ()])
