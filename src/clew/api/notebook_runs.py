"""`/api/v2/notebook-runs`: runs of notebooks, as a list and as pages."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clew.api.problems import problem
from clew.api.source import OpenSource, RunSource
from clew.query.model import NotebookRun, RunSummary, State
from clew.query.run_page import run_page

MAX_LISTED = 100


class ListedRun(Struct, frozen=True, rename="camel"):
    """A run in the list."""

    session_id: str
    notebook: str
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    cell_count: int
    failed_cell_count: int


class RunList(Struct, frozen=True, rename="camel"):
    """The newest runs, and how many there are in all."""

    runs: tuple[ListedRun, ...]
    total: int


def notebook_run_routes(open_source: OpenSource) -> list[Route]:
    """The routes, which answer from whatever `open_source` opens."""

    def listed(request: Request) -> Response:
        limit = _limit(request)
        with open_source() as source:
            runs = source.runs()
        return _json(RunList(runs=tuple(map(_listed, runs[:limit])), total=len(runs)))

    def latest(request: Request) -> Response:
        with open_source() as source:
            run = source.latest()
            return _no_run(request) if run is None else _page(request, source, run)

    def one(request: Request) -> Response:
        with open_source() as source:
            return _page(request, source, source.run(request.path_params["session_id"]))

    # Plain functions: Starlette runs them on a thread, so that reading the index holds up nobody.
    return [
        Route("/api/v2/notebook-runs", listed),
        Route("/api/v2/notebook-runs/latest", latest),
        Route("/api/v2/notebook-runs/{session_id}", one),
    ]


def _page(request: Request, source: RunSource, run: NotebookRun) -> Response:
    column = request.query_params.get("column")
    return _json(run_page(run, answer=None if column is None else source.upstream(column)))


def _no_run(request: Request) -> Response:
    hint = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`; then reload."
    return problem(request, 404, "No notebook run was recorded yet.", hint)


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(MAX_LISTED))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_LISTED:
        raise HTTPException(400, f"A limit of {text!r} is not possible: give a number from 1 to {MAX_LISTED}.")
    return int(text)


def _listed(run: RunSummary) -> ListedRun:
    return ListedRun(
        session_id=run.session_id,
        notebook=run.notebook,
        state=run.state,
        started_at=run.started_at,
        ended_at=run.ended_at,
        cell_count=run.cell_count,
        failed_cell_count=run.failed_cell_count,
    )


def _json(value: Struct) -> Response:
    # A run that is still going on changes: the browser must ask again.
    return Response(msgspec.json.encode(value), media_type="application/json", headers={"cache-control": "no-cache"})
