"""Running Spark applications, from the events of OpenLineage's listener."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class _JobType(Struct, frozen=True):
    jobType: str = ""  # noqa: N815 - OpenLineage field name


class _JobFacets(Struct, frozen=True):
    jobType: _JobType = _JobType()  # noqa: N815


class _Job(Struct, frozen=True):
    facets: _JobFacets = _JobFacets()


class _Run(Struct, frozen=True):
    runId: str  # noqa: N815


class _Event(Struct, frozen=True):
    eventType: str  # noqa: N815
    run: _Run
    job: _Job


_decode = msgspec.json.Decoder(_Event).decode
_ENDS = frozenset(["COMPLETE", "FAIL", "ABORT"])


class RunningSparkApps:
    """Applications with a start event but no end event."""

    def __init__(self) -> None:
        self.running: set[str] = set()

    def update(self, line: bytes) -> None:
        """Process an event; only applications are tracked, since runs inside one may never end."""
        try:
            event = _decode(line)
        except msgspec.DecodeError:
            return
        if event.eventType in _ENDS:
            self.running.discard(event.run.runId)
        elif event.job.facets.jobType.jobType == "APPLICATION":
            self.running.add(event.run.runId)
