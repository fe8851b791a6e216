"""Rows of runs, jobs, parent references and job declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from clew.events.column_lineage import find_implied_inputs
from clew.events.facets import (
    ParentFacet,
    RunRef,
    parse_description,
    parse_job_type,
    parse_lifecycle_change,
    parse_nominal_time,
    parse_parent,
    parse_run_error,
    parse_source_code_location,
)
from clew.events.ids import Identity, compute_job_version
from clew.events.openlineage import DEFAULT_STATE, RUN_STATES, STATE_RANKS, TERMINAL_RANK, Dataset, Facets, Job, Run
from clew.index.changes import (
    DatasetDeclarationRow,
    JobDeclarationRow,
    JobRow,
    ReferencedJobRow,
    ReferencedRunRow,
    RunRow,
)
from clew.index.extract.context import EventContext, EventPrecedence, extend_range, max_or_none
from clew.index.extract.datasets import SchemaCollector


class JobCollector:
    """Collect one row per job, merged event by event."""

    def __init__(self, precedence: EventPrecedence) -> None:
        self._precedence = precedence
        self._jobs: dict[tuple[str, str], JobRow] = {}

    def add(self, job: Job, context: EventContext) -> None:
        """Add an event of a job."""
        key = job.namespace, job.name
        row = self._jobs.get(key)
        if row is None:
            row = self._jobs[key] = JobRow(*key, context.event_time, context.event_time, context.seq, context.seq)
        _merge_into_job(row, context)
        if job.facets:
            self._add_facets(row, job.facets, context)

    def rows(self) -> Iterable[JobRow]:
        """Return the rows of all jobs."""
        return self._jobs.values()

    def _add_facets(self, row: JobRow, facets: Facets, context: EventContext) -> None:
        if "jobType" in facets and self._precedence.supersedes(context, row.type_seq):
            row.job_type, row.integration, row.processing_type = parse_job_type(bytes(facets["jobType"]))
            row.type_seq = context.seq
        if "documentation" in facets and self._precedence.supersedes(context, row.description_seq):
            row.description = parse_description(bytes(facets["documentation"]))
            row.description_seq = context.seq


def _merge_into_job(row: JobRow, context: EventContext) -> None:
    at = context.event_time
    if context.run_uuid is not None and (row.latest_run_at is None or at >= row.latest_run_at):
        row.latest_run_uuid, row.latest_run_at, row.latest_run_seq = context.run_uuid, at, context.seq
    extend_range(row, context)


class ParentReferenceCollector:
    """Collect parent facets, each with the positions of its first and last event."""

    def __init__(self) -> None:
        self._spans: dict[ParentFacet, list[int]] = {}

    def add(self, parent: ParentFacet, seq: int) -> None:
        """Add a parent facet."""
        span = self._spans.get(parent)
        if span is None:
            self._spans[parent] = [seq, seq]
        else:
            span[1] = seq

    def runs(self) -> Iterable[ReferencedRunRow]:
        """Return one row per referenced run, with the job of the first reference."""
        rows: dict[str, ReferencedRunRow] = {}
        for run, first, last in self._references():
            row = rows.get(run.run_uuid)
            if row is None:
                row = rows[run.run_uuid] = ReferencedRunRow(run.run_uuid, None, None, None, last)
            row.last_seq = max(row.last_seq, last)
            if row.job_seq is None and run.job is not None:
                row.job_namespace, row.job_name, row.job_seq = *run.job, first
        return rows.values()

    def jobs(self) -> Iterable[ReferencedJobRow]:
        """Return one row per job of a referenced run."""
        rows: dict[tuple[str, str], ReferencedJobRow] = {}
        for run, first, last in self._references():
            if run.job is not None:
                row = rows.setdefault(run.job, ReferencedJobRow(*run.job, first, last))
                row.last_seq = max(row.last_seq, last)
        return rows.values()

    def _references(self) -> Iterator[tuple[RunRef, int, int]]:
        """Yield the references with first and last position, ordered by first position."""
        for parent, (first, last) in self._spans.items():
            for run in parent.runs:
                yield run, first, last


class RunCollector:
    """Collect one row per run, merged event by event."""

    def __init__(self, parent_references: ParentReferenceCollector, precedence: EventPrecedence) -> None:
        self._parent_references = parent_references
        self._precedence = precedence
        self._runs: dict[str, RunRow] = {}

    def add(self, run: Run, context: EventContext) -> None:
        """Add an event of a run."""
        row = self._runs.get(run.run_id)
        if row is None:
            row = self._runs[run.run_id] = _row(run.run_id, context)
        else:
            _merge_into_run(row, context)
        if run.facets:
            self._add_facets(row, run.facets, context)
        job = context.event.job
        if job is not None and job.facets:
            self._add_source_code_location(row, job.facets, context)

    def rows(self) -> Iterable[RunRow]:
        """Return the rows of all runs."""
        return self._runs.values()

    def _add_source_code_location(self, row: RunRow, facets: Facets, context: EventContext) -> None:
        if "sourceCodeLocation" in facets and self._precedence.supersedes(context, row.source_code_location_seq):
            row.source_code_location, row.source_code_location_seq = (
                parse_source_code_location(bytes(facets["sourceCodeLocation"])),
                context.seq,
            )

    def _add_facets(self, row: RunRow, facets: Facets, context: EventContext) -> None:
        supersedes, seq = self._precedence.supersedes, context.seq
        if "parent" in facets:
            parent = parse_parent(bytes(facets["parent"]))
            self._parent_references.add(parent, seq)
            if supersedes(context, row.parent_seq):
                row.parent_run_uuid, row.parent_job_namespace, row.parent_job_name = parent.names[:3]
                row.root_run_uuid, row.root_job_namespace, row.root_job_name = parent.names[3:]
                row.parent_seq = seq
        if "nominalTime" in facets and supersedes(context, row.nominal_seq):
            row.nominal_start_at, row.nominal_end_at = parse_nominal_time(bytes(facets["nominalTime"]))
            row.nominal_seq = seq
        if "errorMessage" in facets and supersedes(context, row.error_seq):
            row.error_message, row.error_language = parse_run_error(bytes(facets["errorMessage"]))
            row.error_seq = seq


def _row(run_uuid: str, context: EventContext) -> RunRow:
    event, seq, at = context.event, context.seq, context.event_time
    kind = (event.event_type or "").upper()
    rank = STATE_RANKS.get(kind, 0)
    return RunRow(
        run_uuid=run_uuid,
        job_namespace=context.job[0],
        job_name=context.job[1],
        job_seq=None if event.job is None else seq,
        state=RUN_STATES.get(kind, DEFAULT_STATE),
        state_rank=rank,
        state_at=at,
        state_seq=seq,
        started_at=at if kind == "START" else None,
        ended_at=at if rank == TERMINAL_RANK else None,
        first_event_at=at,
        last_event_at=at,
        session_id=event.session_id,
        execution_id=event.execution_id,
        last_seq=seq,
    )


def _merge_into_run(row: RunRow, context: EventContext) -> None:
    """Merge another event into a row, like `MERGE_SPECS`."""
    event, seq, at = context.event, context.seq, context.event_time
    kind = (event.event_type or "").upper()
    rank = STATE_RANKS.get(kind, 0)
    if (rank, at) >= (row.state_rank, row.state_at):
        row.state, row.state_rank, row.state_at, row.state_seq = RUN_STATES.get(kind, DEFAULT_STATE), rank, at, seq
        row.ended_at = at if rank == TERMINAL_RANK else None
    if kind == "START":
        row.started_at = at if row.started_at is None else min(row.started_at, at)
    if row.job_seq is None and event.job is not None:
        row.job_namespace, row.job_name, row.job_seq = *context.job, seq
    row.session_id = max_or_none(row.session_id, event.session_id)
    row.execution_id = max_or_none(row.execution_id, event.execution_id)
    extend_range(row, context)


class JobDeclarationCollector:
    """Collect one row per job and version."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str, str], JobDeclarationRow] = {}

    def add(self, job: Job, context: EventContext) -> None:
        """Add a JobEvent."""
        event = context.event
        inputs, outputs = _names(event.inputs) | find_implied_inputs(event), _names(event.outputs)
        facet = (job.facets or {}).get("sourceCodeLocation")
        location = None if facet is None else parse_source_code_location(bytes(facet))
        key = job.namespace, job.name, compute_job_version((job.namespace, job.name), inputs, outputs, location)
        row = self._versions.get(key)
        if row is None:
            at, seq = context.event_time, context.seq
            self._versions[key] = JobDeclarationRow(
                *key, _to_json(inputs), _to_json(outputs), location, at, at, seq, seq, seq
            )
        else:
            _merge_into_declaration(row, context)

    def rows(self) -> Iterable[JobDeclarationRow]:
        """Return the rows of all declared versions."""
        return self._versions.values()


class DatasetDeclarationCollector:
    """Collect one row per dataset, schema and lifecycle state."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str, str, str], DatasetDeclarationRow] = {}

    def add(self, dataset: Dataset, version: str | None, context: EventContext, schemas: SchemaCollector) -> None:
        """Add the dataset of a DatasetEvent."""
        facets = dataset.facets or {}
        facet = facets.get("lifecycleStateChange")
        change = None if facet is None else parse_lifecycle_change(bytes(facet))
        schema_id, state = schemas.add(facets) or "", "" if change is None else change.state
        if not schema_id and not state:
            return
        key = dataset.namespace, dataset.name, schema_id, state
        row = self._versions.get(key)
        if row is None:
            self._versions[key] = DatasetDeclarationRow(*key, version, context.event_time, context.seq)
        else:
            row.version, row.last_seq = version, context.seq
            row.created_at = min(row.created_at, context.event_time)

    def rows(self) -> Iterable[DatasetDeclarationRow]:
        """Return the rows of all declared versions."""
        return self._versions.values()


def _to_json(datasets: Iterable[Identity]) -> str:
    """Encode datasets as JSON, sorted by name."""
    names = [{"namespace": namespace, "name": name} for namespace, name in sorted(datasets)]
    return msgspec.json.encode(names).decode()


def _names(datasets: list[Dataset] | None) -> set[Identity]:
    return {(dataset.namespace, dataset.name) for dataset in datasets or ()}


def _merge_into_declaration(row: JobDeclarationRow, context: EventContext) -> None:
    if context.event_time >= row.declared_at:
        row.declared_at, row.declared_seq = context.event_time, context.seq
    row.created_at = min(row.created_at, context.event_time)
    row.last_seq = context.seq
