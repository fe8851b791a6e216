"""Rows of runs, jobs, parent references and declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from clew.events.column_lineage import ENTRIES_KEY, LINEAGE_FACET, find_implied_inputs
from clew.events.facets import (
    find_parent,
    parse_description,
    parse_job_type,
    parse_lifecycle_change,
    parse_nominal_time,
    parse_run_error,
    parse_source_code_location,
)
from clew.events.ids import Identity, compute_job_version
from clew.events.openlineage import DEFAULT_STATE, RUN_STATES, STATE_RANKS, TERMINAL_RANK, Dataset, Facets, Job, Run
from clew.index.changes import (
    DatasetDeclarationRow,
    EventContext,
    JobDeclarationRow,
    JobRow,
    ReferencedJobRow,
    ReferencedRunRow,
    RunRow,
)

_NO_FACETS: Facets = {}


def run_row(run: Run, context: EventContext) -> RunRow:
    """Return the row of the event's run."""
    event, seq, at = context.event, context.seq, context.event_time
    kind = (event.event_type or "").upper()
    rank = STATE_RANKS.get(kind, 0)
    row = RunRow(
        run_uuid=run.run_id,
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
        has_lineage_entries=_has_entries(event.job),
    )
    if run.facets:
        _add_run_facets(row, run.facets, context)
    location = (_NO_FACETS if event.job is None else event.job.facets or _NO_FACETS).get("sourceCodeLocation")
    if location is not None:
        row.source_code_location = parse_source_code_location(bytes(location))
        row.source_code_location_order_time, row.source_code_location_seq = context.order_time, seq
    return row


def _has_entries(job: Job | None) -> bool:
    facet = None if job is None or not job.facets else job.facets.get(LINEAGE_FACET)
    return facet is not None and ENTRIES_KEY.encode() in bytes(facet)


def _add_run_facets(row: RunRow, facets: Facets, context: EventContext) -> None:
    parent = find_parent(facets, context.job)
    if parent is not None:
        names = parent.names
        row.parent_run_uuid, row.parent_job_namespace, row.parent_job_name = names[:3]
        row.root_run_uuid, row.root_job_namespace, row.root_job_name = names[3:]
        row.parent_order_time, row.parent_seq = context.order_time, context.seq
    if "nominalTime" in facets:
        row.nominal_start_at, row.nominal_end_at = parse_nominal_time(bytes(facets["nominalTime"]))
        row.nominal_order_time, row.nominal_seq = context.order_time, context.seq
    if "errorMessage" in facets:
        row.error_message, row.error_language = parse_run_error(bytes(facets["errorMessage"]))
        row.error_order_time, row.error_seq = context.order_time, context.seq


def reference_rows(run: Run, context: EventContext) -> Iterator[ReferencedRunRow | ReferencedJobRow]:
    """Yield the parent and root runs that the event's run references, and their jobs."""
    facet = find_parent(run.facets or _NO_FACETS, context.job)
    if facet is not None:
        at, seq = context.event_time, context.seq
        for parent in facet.runs:
            if parent.job is None:
                yield ReferencedRunRow(parent.run_uuid, None, None, None, at, at, seq)
            else:
                yield ReferencedRunRow(parent.run_uuid, *parent.job, seq, at, at, seq)
                yield ReferencedJobRow(*parent.job, at, at, seq, seq)


def job_row(job: Job, context: EventContext) -> JobRow:
    """Return the row of the event's job."""
    at, seq = context.event_time, context.seq
    row = JobRow(job.namespace, job.name, at, at, seq, seq)
    if context.run_uuid is not None:
        row.latest_run_uuid, row.latest_run_at, row.latest_run_seq = context.run_uuid, at, seq
    parent = find_parent((context.event.run and context.event.run.facets) or _NO_FACETS, context.job)
    parent_job = None if parent is None else parent.job
    if parent_job is not None:
        row.parent_job_namespace, row.parent_job_name = parent_job
        row.parent_order_time, row.parent_seq = context.order_time, seq
    facets = job.facets
    if facets:
        if "jobType" in facets:
            row.job_type, row.integration, row.processing_type = parse_job_type(bytes(facets["jobType"]))
            row.type_order_time, row.type_seq = context.order_time, seq
        if "documentation" in facets:
            row.description = parse_description(bytes(facets["documentation"]))
            row.description_order_time, row.description_seq = context.order_time, seq
    return row


def job_declaration_row(job: Job, context: EventContext) -> JobDeclarationRow:
    """Return the job version that a JobEvent declares."""
    event, at, seq = context.event, context.event_time, context.seq
    inputs, outputs = _names(event.inputs) | find_implied_inputs(event), _names(event.outputs)
    facet = (job.facets or _NO_FACETS).get("sourceCodeLocation")
    location = None if facet is None else parse_source_code_location(bytes(facet))
    version = compute_job_version((job.namespace, job.name), inputs, outputs, location)
    return JobDeclarationRow(
        job.namespace, job.name, version, _to_json(inputs), _to_json(outputs), location, at, at, seq, seq, seq
    )


def dataset_declaration_row(
    dataset: Dataset, version: str | None, schema_id: str | None, context: EventContext
) -> DatasetDeclarationRow | None:
    """Return the dataset version that a DatasetEvent declares; None if it has neither schema nor lifecycle state."""
    facet = (dataset.facets or _NO_FACETS).get("lifecycleStateChange")
    change = None if facet is None else parse_lifecycle_change(bytes(facet))
    if schema_id is None and change is None:
        return None
    state = "" if change is None else change.state
    return DatasetDeclarationRow(
        dataset.namespace, dataset.name, schema_id or "", state, version, context.event_time, context.seq
    )


def _to_json(datasets: Iterable[Identity]) -> str:
    """Encode datasets as JSON, sorted by name."""
    names = [{"namespace": namespace, "name": name} for namespace, name in sorted(datasets)]
    return msgspec.json.encode(names).decode()


def _names(datasets: list[Dataset] | None) -> set[Identity]:
    return {(dataset.namespace, dataset.name) for dataset in datasets or ()}
