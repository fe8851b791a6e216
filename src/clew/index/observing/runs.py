"""Runs, as their events tell of them, and the runs that they name as parent or root."""

from __future__ import annotations

from collections.abc import Iterable

from clew.events.job_facets import location_of
from clew.events.openlineage import Facets, Run
from clew.events.run_facets import error_of, nominal_time_of, parent_of
from clew.events.states import RANKS, STATES, TERMINAL_RANK, UNSAID
from clew.index.changes import RunRow
from clew.index.observing.ancestors import SeenAncestors
from clew.index.observing.greatest import greatest
from clew.index.observing.sighting import Sighting, widen
from clew.index.observing.turns import Turns


class SeenRuns:
    """One row per run, merged as events come."""

    def __init__(self, ancestors: SeenAncestors, turns: Turns) -> None:
        self._ancestors = ancestors
        self._turns = turns
        self._runs: dict[str, RunRow] = {}

    def note(self, run: Run, sighting: Sighting) -> None:
        """Take an event of a run."""
        row = self._runs.get(run.run_id)
        if row is None:
            row = self._runs[run.run_id] = _row(run.run_id, sighting)
        else:
            _widen(row, sighting)
        if run.facets:
            self._note_facets(row, run.facets, sighting)
        job = sighting.event.job
        if job is not None and job.facets:
            self._note_location(row, job.facets, sighting)

    def rows(self) -> Iterable[RunRow]:
        """All runs seen."""
        return self._runs.values()

    def _note_location(self, row: RunRow, facets: Facets, sighting: Sighting) -> None:
        if "sourceCodeLocation" in facets and self._turns.is_last(sighting, row.location_seq):
            row.location, row.location_seq = location_of(bytes(facets["sourceCodeLocation"])), sighting.seq

    def _note_facets(self, row: RunRow, facets: Facets, sighting: Sighting) -> None:
        is_last, seq = self._turns.is_last, sighting.seq
        if "parent" in facets:
            named = parent_of(bytes(facets["parent"]))
            self._ancestors.note(named, seq)
            if is_last(sighting, row.parent_seq):
                row.parent_run_uuid, row.parent_job_namespace, row.parent_job_name = named.names[:3]
                row.root_run_uuid, row.root_job_namespace, row.root_job_name = named.names[3:]
                row.parent_seq = seq
        if "nominalTime" in facets and is_last(sighting, row.nominal_seq):
            row.nominal_start_at, row.nominal_end_at = nominal_time_of(bytes(facets["nominalTime"]))
            row.nominal_seq = seq
        if "errorMessage" in facets and is_last(sighting, row.error_seq):
            row.error_message, row.error_language = error_of(bytes(facets["errorMessage"]))
            row.error_seq = seq


def _row(run_uuid: str, sighting: Sighting) -> RunRow:
    event, seq, at = sighting.event, sighting.seq, sighting.at
    kind = (event.event_type or "").upper()
    rank = RANKS.get(kind, 0)
    return RunRow(
        run_uuid=run_uuid,
        job_namespace=sighting.job[0],
        job_name=sighting.job[1],
        job_seq=None if event.job is None else seq,
        state=STATES.get(kind, UNSAID),
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


def _widen(row: RunRow, sighting: Sighting) -> None:
    """What one more event changes: what MERGES says, without a database."""
    event, seq, at = sighting.event, sighting.seq, sighting.at
    kind = (event.event_type or "").upper()
    rank = RANKS.get(kind, 0)
    if (rank, at) >= (row.state_rank, row.state_at):
        row.state, row.state_rank, row.state_at, row.state_seq = STATES.get(kind, UNSAID), rank, at, seq
        row.ended_at = at if rank == TERMINAL_RANK else None
    if kind == "START":
        row.started_at = at if row.started_at is None else min(row.started_at, at)
    if row.job_seq is None and event.job is not None:
        row.job_namespace, row.job_name, row.job_seq = *sighting.job, seq
    row.session_id = greatest(row.session_id, event.session_id)
    row.execution_id = greatest(row.execution_id, event.execution_id)
    widen(row, sighting)
