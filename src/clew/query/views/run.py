"""Run page: state, child runs, inputs and outputs of a run."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from clew.index.browsing import PageQueries
from clew.index.reader import Row
from clew.query.moments import from_epoch_micros
from clew.query.names import UnknownNameError
from clew.query.views.model import EntityName, Facets, RunListItem, to_raw, to_run_item

_MAX_CHILDREN = 200


class RunIoView(Struct, frozen=True, rename="camel"):
    """An input or output of a run."""

    dataset: EntityName
    version: str | None
    row_count: int | None
    is_implied: bool
    facets: Facets


class RunView(Struct, frozen=True, rename="camel"):
    """Content of the run page."""

    run: RunListItem
    error: str | None
    parent: RunListItem | None
    previous: RunListItem | None
    nominal_start: datetime | None
    nominal_end: datetime | None
    facets: Facets
    job_facets: Facets
    inputs: tuple[RunIoView, ...]
    outputs: tuple[RunIoView, ...]
    children: tuple[RunListItem, ...]
    child_total: int


def build_run_view(index: PageQueries, run_uuid: str) -> RunView:
    """Build the page of a run."""
    row = index.run(run_uuid)
    if row is None:
        raise UnknownNameError.of("run", run_uuid, [other["run_uuid"] for other in index.run_page("", "", 1000)[0]])
    run = to_run_item(row)
    children, total = index.children(run_uuid, _MAX_CHILDREN)
    io = index.run_io(run_uuid)
    parent = None if row["parent_run_uuid"] is None else index.run(row["parent_run_uuid"])
    return RunView(
        run=run,
        error=row["error_message"],
        parent=None if parent is None else to_run_item(parent),
        previous=_previous(index, row),
        nominal_start=from_epoch_micros(row["nominal_start_at"]),
        nominal_end=from_epoch_micros(row["nominal_end_at"]),
        facets=to_raw(index.facets("run", run_uuid)),
        job_facets={} if run.job is None else to_raw(index.facets("job", *run.job.key)),
        inputs=tuple(_to_io(index, used) for used in io if used["direction"] == "INPUT"),
        outputs=tuple(_to_io(index, used) for used in io if used["direction"] == "OUTPUT"),
        children=tuple(map(to_run_item, children)),
        child_total=total,
    )


def _previous(index: PageQueries, row: Row) -> RunListItem | None:
    """Return the previous run of the same job, for comparison."""
    if row["job_name"] is None or row["started_at"] is None:
        return None
    runs, _ = index.runs_of((row["job_namespace"], row["job_name"]), 1000)
    return next((to_run_item(other) for other in runs if (other["started_at"] or 0) < row["started_at"]), None)


def _to_io(index: PageQueries, row: Row) -> RunIoView:
    key = (row["dataset_namespace"], row["dataset_name"], row["dataset_version"] or None)
    return RunIoView(
        dataset=EntityName(*key[:2]),
        version=key[2],
        row_count=row["row_count"],
        is_implied=bool(row["is_implied"]),
        facets=to_raw(index.facets(row["direction"].lower(), *key, row["run_uuid"])),
    )
