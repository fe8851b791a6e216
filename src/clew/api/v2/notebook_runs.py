"""Notebook run operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Final, Protocol, TypeAlias

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clew.api.middleware import problem_response, struct_response
from clew.api.v2.operation import OperationSpec, RequestParameters, TextParam, parse_parameters
from clew.query.model import LineageStep, NotebookRun, SessionSummary
from clew.query.pages.run_page import build_run_page
from clew.query.pages.run_page_model import RunPage


class NotebookRunSource(Protocol):
    """Queries on notebook runs; unknown names raise `UsageError`."""

    def runs(self) -> Sequence[SessionSummary]:
        """Return notebook runs, newest first."""

    def latest_run(self) -> NotebookRun | None:
        """Return the latest run."""

    def run(self, session_id: str) -> NotebookRun:
        """Return a run."""

    def upstream(self, column: str) -> LineageStep:
        """Return the upstream lineage of `dataset.column`."""


# Opened for each request: the index can be created or rebuilt while the server runs.
OpenRunSource: TypeAlias = Callable[[], AbstractContextManager[NotebookRunSource]]


MAX_NOTEBOOK_RUNS = 100


class NotebookRunList(Struct, frozen=True, rename="camel"):
    """Newest notebook runs and their total number."""

    runs: tuple[SessionSummary, ...]
    total: int


_Column: TypeAlias = Annotated[
    TextParam | None, Meta(description="Column to explain, as dataset.column.", examples=["totals.parquet.sum"])
]


class _ListParameters(RequestParameters):
    limit: Annotated[int, Meta(ge=1, le=MAX_NOTEBOOK_RUNS, description="Maximum number of results.")] = (
        MAX_NOTEBOOK_RUNS
    )


class _LatestParameters(RequestParameters):
    column: _Column = None


class _RunParameters(RequestParameters):
    session_id: Annotated[TextParam, Meta(description="Session id of the run.")]
    column: _Column = None


_LIST: Final = OperationSpec(
    "notebookRuns",
    "/api/v2/notebook-runs",
    "List the newest notebook runs",
    _ListParameters,
    NotebookRunList,
)
_LATEST: Final = OperationSpec(
    "latestNotebookRun", "/api/v2/notebook-runs/latest", "Get the latest notebook run", _LatestParameters, RunPage
)
_RUN: Final = OperationSpec(
    "notebookRun",
    "/api/v2/notebook-runs/{sessionId}",
    "Get a notebook run with its cells",
    _RunParameters,
    RunPage,
)
NOTEBOOK_RUN_OPERATIONS: Final = (_LIST, _LATEST, _RUN)


def notebook_run_routes(open_source: OpenRunSource) -> list[Route]:
    """Create the routes; `open_source` is called for each request."""

    def list_runs(request: Request) -> Response:
        limit = parse_parameters(_ListParameters, request.query_params).limit
        with open_source() as source:
            runs = source.runs()
        return struct_response(NotebookRunList(runs=tuple(runs[:limit]), total=len(runs)))

    def latest_run(request: Request) -> Response:
        column = parse_parameters(_LatestParameters, request.query_params).column
        with open_source() as source:
            run = source.latest_run()
            return _no_run_response(request) if run is None else _page_response(source, run, column)

    def get_run(request: Request) -> Response:
        parameters = parse_parameters(_RunParameters, {**request.query_params, **request.path_params})
        with open_source() as source:
            return _page_response(source, source.run(parameters.session_id), parameters.column)

    # Not async: Starlette runs them in a thread pool.
    return [
        Route(_LIST.path, list_runs),
        Route(_LATEST.path, latest_run),
        Route(_RUN.path, get_run),
    ]


def _page_response(source: NotebookRunSource, run: NotebookRun, column: str | None) -> Response:
    return struct_response(build_run_page(run, upstream=None if column is None else source.upstream(column)))


def _no_run_response(request: Request) -> Response:
    hint = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`; then reload."
    return problem_response(request, 404, "No notebook run was recorded yet.", hint)
