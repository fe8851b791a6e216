"""One job: its runs, what it reads and writes, and its facets."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from clew.index.browsing import Browser
from clew.query.moments import moment
from clew.query.names import UnknownNameError
from clew.query.views.model import Facets, Name, RunLine, Touch, raw, run_line, touches

_MOST_RUNS = 60


class JobView(Struct, frozen=True, rename="camel"):
    """All that the page of a job shows; runs with the newest first."""

    job: Name
    kind: str | None
    integration: str | None
    description: str | None
    at: datetime | None
    facets: Facets
    inputs: tuple[Touch, ...]
    outputs: tuple[Touch, ...]
    runs: tuple[RunLine, ...]
    run_total: int


def job_view(index: Browser, name: Name) -> JobView:
    """The page of a job."""
    row = index.job(name.parts)
    if row is None:
        known, _ = index.job_page("", 1000)
        raise UnknownNameError.of("job", name.name, [one["name"] for one in known])
    runs, total = index.runs_of(name.parts, _MOST_RUNS)
    return JobView(
        job=name,
        kind=row["job_type"],
        integration=row["integration"],
        description=row["description"],
        at=moment(row["last_event_at"]),
        facets=raw(index.facets("job", *name.parts)),
        inputs=touches(index.datasets_touched(name.parts, "INPUT"), "dataset"),
        outputs=touches(index.datasets_touched(name.parts, "OUTPUT"), "dataset"),
        runs=tuple(map(run_line, runs)),
        run_total=total,
    )
