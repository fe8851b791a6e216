"""Jobs, as events tell of them."""

from __future__ import annotations

from collections.abc import Iterable

from clew.events.job_facets import description_of, job_type_of
from clew.events.openlineage import Facets, Job
from clew.index.changes import JobRow
from clew.index.observing.sighting import Sighting, widen
from clew.index.observing.turns import Turns


class SeenJobs:
    """One row per job, merged as events come."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._jobs: dict[tuple[str, str], JobRow] = {}

    def note(self, job: Job, sighting: Sighting) -> None:
        """Take an event that names a job."""
        key = job.namespace, job.name
        row = self._jobs.get(key)
        if row is None:
            row = self._jobs[key] = JobRow(*key, sighting.at, sighting.at, sighting.seq, sighting.seq)
        _widen(row, sighting)
        if job.facets:
            self._note_facets(row, job.facets, sighting)

    def rows(self) -> Iterable[JobRow]:
        """All jobs seen."""
        return self._jobs.values()

    def _note_facets(self, row: JobRow, facets: Facets, sighting: Sighting) -> None:
        if "jobType" in facets and self._turns.is_last(sighting, row.type_seq):
            row.job_type, row.integration, row.processing_type = job_type_of(bytes(facets["jobType"]))
            row.type_seq = sighting.seq
        if "documentation" in facets and self._turns.is_last(sighting, row.description_seq):
            row.description = description_of(bytes(facets["documentation"]))
            row.description_seq = sighting.seq


def _widen(row: JobRow, sighting: Sighting) -> None:
    at = sighting.at
    if sighting.run_uuid is not None and (row.latest_run_at is None or at >= row.latest_run_at):
        row.latest_run_uuid, row.latest_run_at, row.latest_run_seq = sighting.run_uuid, at, sighting.seq
    widen(row, sighting)
