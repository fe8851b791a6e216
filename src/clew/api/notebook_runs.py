"""`/api/v2/notebook-runs`: runs of notebooks, as a list and as pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clew.api.operations import Question
from clew.api.parameters import Integer, Text, read_parameters
from clew.api.problems import problem
from clew.api.source import OpenSource, RunSource
from clew.query.model import NotebookRun, RunSummary, State
from clew.query.run_page import run_page
from clew.query.run_page_model import RunPage

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


_COLUMN = Text("column", "The column to focus on, as dataset.column.", example="totals.parquet.sum")
_LIST: Final = Question(
    "notebookRuns",
    "/api/v2/notebook-runs",
    "The newest runs of notebooks",
    (Integer("limit", "How many to tell.", least=1, most=MAX_LISTED, usual=MAX_LISTED),),
    RunList,
)
_LATEST: Final = Question(
    "latestNotebookRun", "/api/v2/notebook-runs/latest", "The run of a notebook that started last", (_COLUMN,), RunPage
)
_ONE: Final = Question(
    "notebookRun",
    "/api/v2/notebook-runs/{sessionId}",
    "What happened in a run of a notebook, cell by cell",
    (Text("sessionId", "The id of its session.", is_required=True, place="path"), _COLUMN),
    RunPage,
)
NOTEBOOK_QUESTIONS: Final = (_LIST, _LATEST, _ONE)


def notebook_run_routes(open_source: OpenSource) -> list[Route]:
    """The routes, which answer from whatever `open_source` opens."""

    def listed(request: Request) -> Response:
        limit = _values(_LIST, request)["limit"]
        with open_source() as source:
            runs = source.runs()
        return _json(RunList(runs=tuple(map(_listed, runs[:limit])), total=len(runs)))

    def latest(request: Request) -> Response:
        column = _values(_LATEST, request)["column"]
        with open_source() as source:
            run = source.latest()
            return _no_run(request) if run is None else _page(source, run, column)

    def one(request: Request) -> Response:
        values = _values(_ONE, request)
        with open_source() as source:
            return _page(source, source.run(values["sessionId"]), values["column"])

    # Plain functions: Starlette runs them on a thread, so that reading the index holds up nobody.
    return [
        Route(_LIST.path, listed),
        Route(_LATEST.path, latest),
        Route(_ONE.path, one),
    ]


def _values(question: Question, request: Request) -> dict[str, Any]:
    return read_parameters(question.parameters, request.query_params, request.path_params)


def _page(source: RunSource, run: NotebookRun, column: str | None) -> Response:
    return _json(run_page(run, answer=None if column is None else source.upstream(column)))


def _no_run(request: Request) -> Response:
    hint = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`; then reload."
    return problem(request, 404, "No notebook run was recorded yet.", hint)


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
