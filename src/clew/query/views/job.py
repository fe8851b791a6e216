"""Job page: runs, inputs, outputs and facets."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from clew.index.browsing import PageQueries
from clew.query.moments import from_epoch_micros
from clew.query.names import UnknownNameError
from clew.query.views.model import EntityName, Facets, RunListItem, Usage, to_raw, to_run_item, to_usages

_MAX_RUNS = 60


class JobView(Struct, frozen=True, rename="camel"):
    """Content of the job page; runs are newest first."""

    job: EntityName
    kind: str | None
    integration: str | None
    description: str | None
    at: datetime | None
    facets: Facets
    inputs: tuple[Usage, ...]
    outputs: tuple[Usage, ...]
    runs: tuple[RunListItem, ...]
    run_total: int


def build_job_view(index: PageQueries, name: EntityName) -> JobView:
    """Build the page of a job."""
    row = index.job(name.key)
    if row is None:
        existing, _ = index.job_page("", 1000)
        raise UnknownNameError.of("job", name.name, [other["name"] for other in existing])
    runs, total = index.runs_of(name.key, _MAX_RUNS)
    return JobView(
        job=name,
        kind=row["job_type"],
        integration=row["integration"],
        description=row["description"],
        at=from_epoch_micros(row["last_event_at"]),
        facets=to_raw(index.facets("job", *name.key)),
        inputs=to_usages(index.datasets_used_by(name.key, "INPUT"), "dataset"),
        outputs=to_usages(index.datasets_used_by(name.key, "OUTPUT"), "dataset"),
        runs=tuple(map(to_run_item, runs)),
        run_total=total,
    )
