"""Runs, and their references to parent and root runs."""

from __future__ import annotations

from collections.abc import Iterable

from clew.events.job_facets import parse_source_code_location
from clew.events.openlineage import Facets, Run
from clew.events.run_facets import parse_nominal_time, parse_parent, parse_run_error
from clew.events.states import DEFAULT_STATE, RUN_STATES, STATE_RANKS, TERMINAL_RANK
from clew.index.changes import RunRow
from clew.index.observing.ancestors import ParentReferenceCollector
from clew.index.observing.greatest import max_or_none
from clew.index.observing.sighting import EventContext, extend_range
from clew.index.observing.turns import EventPrecedence


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
