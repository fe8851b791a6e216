"""Jobs."""

from __future__ import annotations

from collections.abc import Iterable

from clew.events.job_facets import parse_description, parse_job_type
from clew.events.openlineage import Facets, Job
from clew.index.changes import JobRow
from clew.index.observing.sighting import EventContext, extend_range
from clew.index.observing.turns import EventPrecedence


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
