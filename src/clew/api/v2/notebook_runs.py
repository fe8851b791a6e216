"""Notebook run operations."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from clew.api.v2.operation import OperationContext, RequestParameters, TextParam, api_operation
from clew.query.model import NotebookRun, SessionSummary
from clew.query.pages.run_page import build_run_page
from clew.query.pages.run_page_model import RunPage

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


@api_operation("notebookRuns", "/api/v2/notebook-runs", "List the newest notebook runs")
def _list(context: OperationContext, parameters: _ListParameters) -> NotebookRunList:
    sessions = context.service.list_sessions()
    return NotebookRunList(runs=tuple(sessions[: parameters.limit]), total=len(sessions))


@api_operation("latestNotebookRun", "/api/v2/notebook-runs/latest", "Get the latest notebook run")
def _latest(context: OperationContext, parameters: _LatestParameters) -> RunPage:
    return _run_page(context, context.service.find_session(), parameters.column)


@api_operation("notebookRun", "/api/v2/notebook-runs/{sessionId}", "Get a notebook run with its cells")
def _run(context: OperationContext, parameters: _RunParameters) -> RunPage:
    return _run_page(context, context.service.get_session(parameters.session_id), parameters.column)


def _run_page(context: OperationContext, run: NotebookRun, column: str | None) -> RunPage:
    return build_run_page(run, upstream=None if column is None else context.service.trace_column(column))


NOTEBOOK_RUN_OPERATIONS: Final = (_list, _latest, _run)
