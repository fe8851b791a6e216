"""Spark applications as OpenLineage's listener tells of them: which of them are still at work."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class _JobType(Struct, frozen=True):
    jobType: str = ""  # noqa: N815  # the wire's name


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


class Applications:
    """Those whose beginning was seen and whose end was not."""

    def __init__(self) -> None:
        self.running: set[str] = set()

    def follow(self, line: bytes) -> None:
        """Look at an event; of what begins within an application, some never ends."""
        try:
            event = _decode(line)
        except msgspec.DecodeError:
            return
        if event.eventType in _ENDS:
            self.running.discard(event.run.runId)
        elif event.job.facets.jobType.jobType == "APPLICATION":
            self.running.add(event.run.runId)
