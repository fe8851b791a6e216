"""One run of any job: how it went, its parts on a time bar, what it read and wrote."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from clew.index.browsing import Browser
from clew.index.reader import Row
from clew.query.moments import moment
from clew.query.names import UnknownNameError
from clew.query.views.model import Facets, Name, RunLine, raw, run_line

_MOST_CHILDREN = 200


class RunData(Struct, frozen=True, rename="camel"):
    """A dataset as a run read or wrote it."""

    dataset: Name
    version: str | None
    row_count: int | None
    is_implied: bool
    facets: Facets


class RunView(Struct, frozen=True, rename="camel"):
    """All that the page of a run shows."""

    run: RunLine
    error: str | None
    parent: RunLine | None
    previous: RunLine | None
    nominal_start: datetime | None
    nominal_end: datetime | None
    facets: Facets
    job_facets: Facets
    inputs: tuple[RunData, ...]
    outputs: tuple[RunData, ...]
    children: tuple[RunLine, ...]
    child_total: int


def run_view(index: Browser, run_uuid: str) -> RunView:
    """The page of a run."""
    row = index.run(run_uuid)
    if row is None:
        raise UnknownNameError.of("run", run_uuid, [one["run_uuid"] for one in index.run_page("", "", 1000)[0]])
    line = run_line(row)
    children, total = index.children(run_uuid, _MOST_CHILDREN)
    io = index.run_io(run_uuid)
    parent = None if row["parent_run_uuid"] is None else index.run(row["parent_run_uuid"])
    return RunView(
        run=line,
        error=row["error_message"],
        parent=None if parent is None else run_line(parent),
        previous=_previous(index, row),
        nominal_start=moment(row["nominal_start_at"]),
        nominal_end=moment(row["nominal_end_at"]),
        facets=raw(index.facets("run", run_uuid)),
        job_facets={} if line.job is None else raw(index.facets("job", *line.job.parts)),
        inputs=tuple(_data(index, one) for one in io if one["direction"] == "INPUT"),
        outputs=tuple(_data(index, one) for one in io if one["direction"] == "OUTPUT"),
        children=tuple(map(run_line, children)),
        child_total=total,
    )


def _previous(index: Browser, row: Row) -> RunLine | None:
    """The run of the same job before this one: what there is to compare with."""
    if row["job_name"] is None or row["started_at"] is None:
        return None
    runs, _ = index.runs_of((row["job_namespace"], row["job_name"]), 1000)
    return next((run_line(one) for one in runs if (one["started_at"] or 0) < row["started_at"]), None)


def _data(index: Browser, row: Row) -> RunData:
    key = (row["dataset_namespace"], row["dataset_name"], row["dataset_version"] or None)
    return RunData(
        dataset=Name(*key[:2]),
        version=key[2],
        row_count=row["row_count"],
        is_implied=bool(row["is_implied"]),
        facets=raw(index.facets(row["direction"].lower(), *key, row["run_uuid"])),
    )
