"""Datasets, jobs and runs: details and lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from clew.api.operations import ApiOperation, NeedsThreadError, OperationContext
from clew.api.parameters import CursorParam, IntegerParam, Parameter, StringParam, encode_cursor
from clew.errors import MalformedError
from clew.index import entities
from clew.index.reader import Row
from clew.query.documents import (
    DatasetDetails,
    DatasetSummary,
    JobDetails,
    JobSummary,
    RunDetails,
    RunSummary,
    describe_dataset,
    describe_job,
    describe_run,
    to_dataset_summary,
    to_job_summary,
    to_run_summary,
)
from clew.query.facets import find_run_facets
from clew.query.graph.nodes import Node
from clew.query.lineage import IndexFreshness
from clew.query.node_ids import resolve_node_id

_CURSOR = CursorParam("cursor", "Cursor of the page: next of the previous response.")
_LIMIT = IntegerParam("limit", "Maximum number of results.", minimum=1, maximum=1000, default_value=100)
_NAMESPACE = StringParam("namespace", "Only this namespace.")
T = TypeVar("T")


class DatasetListResponse(Struct, frozen=True):
    """Page of datasets by name; `next` is the cursor of the next page."""

    datasets: tuple[DatasetSummary, ...]
    next: str | None


class JobListResponse(Struct, frozen=True):
    """Page of jobs by name; `next` is the cursor of the next page."""

    jobs: tuple[JobSummary, ...]
    next: str | None


class RunListResponse(Struct, frozen=True):
    """Page of a job's runs, newest first; `next` is the cursor of the next page."""

    runs: tuple[RunSummary, ...]
    next: str | None


class IndexStatusResponse(Struct, frozen=True, rename="camel"):
    """Position of the index in the log."""

    indexed_up_to: IndexFreshness
    last_batch: str


def _find_node(context: OperationContext, kind: str) -> Node:
    node = resolve_node_id(context.index, context["nodeId"])
    if node.kind != kind:
        raise MalformedError(f"{context['nodeId'][:200]!r} is a {node.kind}.", hint=f"Use /api/v2/{node.kind}.")
    return node


def _dataset(context: OperationContext) -> DatasetDetails:
    node = _find_node(context, "dataset")
    return describe_dataset(context.index, node.namespace, node.name)


def _job(context: OperationContext) -> JobDetails:
    node = _find_node(context, "job")
    return describe_job(context.index, node.namespace, node.name)


def _run(context: OperationContext) -> RunDetails:
    resources, details = context.resources, describe_run(context.index, context["runId"])
    has_raw_events = False if details.facets else resources.has_pending_backfill(context.index)
    if has_raw_events is not False and context.on_event_loop:
        raise NeedsThreadError
    if not (resources.check_pending_backfill(context.index) if has_raw_events is None else has_raw_events):
        return details
    return msgspec.structs.replace(
        details, facets=find_run_facets(context.index, context["runId"], resources.lake_location)
    )


def _datasets(context: OperationContext) -> DatasetListResponse:
    after = _CURSOR.check_values(context["cursor"], str, str) or ["", ""]
    rows = entities.datasets_after(context.index, context["namespace"], (after[0], after[1]), context["limit"] + 1)
    return DatasetListResponse(
        *_page(rows, context["limit"], to_dataset_summary, lambda row: encode_cursor(row["namespace"], row["name"]))
    )


def _jobs(context: OperationContext) -> JobListResponse:
    after = _CURSOR.check_values(context["cursor"], str, str) or ["", ""]
    rows = entities.jobs_after(context.index, context["namespace"], (after[0], after[1]), context["limit"] + 1)
    return JobListResponse(*_page(rows, context["limit"], to_job_summary, _name_cursor))


def _runs(context: OperationContext) -> RunListResponse:
    node = _find_node(context, "job")
    values = _CURSOR.check_values(context["cursor"], (int, type(None)), str)
    before = None if values is None else (values[0], values[1])
    rows = entities.runs_before(context.index, node.namespace, node.name, before, context["limit"] + 1)
    return RunListResponse(
        *_page(rows, context["limit"], to_run_summary, lambda row: encode_cursor(row["started_at"], row["run_uuid"]))
    )


def _name_cursor(row: Row) -> str:
    return encode_cursor(row["namespace"], row["name"])


def _page(
    rows: list[Row], limit: int, entry: Callable[[Row], T], cursor: Callable[[Row], str]
) -> tuple[tuple[T, ...], str | None]:
    return tuple(map(entry, rows[:limit])), cursor(rows[limit - 1]) if len(rows) > limit else None


def _status(context: OperationContext) -> IndexStatusResponse:
    progress = context.index.version()
    return IndexStatusResponse(IndexFreshness(progress.indexed_seq, progress.indexed_at), progress.last_batch)


def _node_id(form: str, example: str) -> Parameter:
    return StringParam("nodeId", f"Node id: {form}.", is_required=True, example=example)


_DATASET_ID = _node_id("dataset:NAMESPACE:NAME", "dataset:file:/data/orders.csv")
_JOB_ID = _node_id("job:NAMESPACE:NAME", "job:marimo:orders")

ENTITY_OPERATIONS: Final = (
    ApiOperation(
        "dataset",
        "/api/v2/dataset",
        "Get a dataset by any of its names",
        (_DATASET_ID,),
        DatasetDetails,
        _dataset,
        is_inline=True,
    ),
    ApiOperation("job", "/api/v2/job", "Get a job", (_JOB_ID,), JobDetails, _job, is_inline=True),
    ApiOperation(
        "run",
        "/api/v2/runs/{runId}",
        "Get a run",
        (StringParam("runId", "OpenLineage runId.", is_required=True, location="path"),),
        RunDetails,
        _run,
        is_inline=True,
    ),
    ApiOperation(
        "datasets",
        "/api/v2/datasets",
        "List datasets by name",
        (_NAMESPACE, _LIMIT, _CURSOR),
        DatasetListResponse,
        _datasets,
    ),
    ApiOperation("jobs", "/api/v2/jobs", "List jobs by name", (_NAMESPACE, _LIMIT, _CURSOR), JobListResponse, _jobs),
    ApiOperation(
        "runs",
        "/api/v2/runs",
        "List the runs of a job, newest first",
        (_JOB_ID, _LIMIT, _CURSOR),
        RunListResponse,
        _runs,
    ),
    ApiOperation(
        "status",
        "/api/v2/status",
        "Get the position of the index in the log",
        (),
        IndexStatusResponse,
        _status,
        is_inline=True,
    ),
)
