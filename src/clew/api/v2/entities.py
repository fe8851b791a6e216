"""Operations on datasets, jobs, runs, facets and diffs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from clew.api.v2.operation import (
    ApiOperation,
    CursorParam,
    IntegerParam,
    NeedsThreadError,
    OperationContext,
    Parameter,
    StringParam,
    encode_cursor,
)
from clew.errors import MalformedError
from clew.index.backends.base import Row
from clew.index.queries import entities
from clew.query.diff import RunDiff, VersionDiff, code_from_facets, diff_code_by_name, diff_runs, diff_versions
from clew.query.entities.facets import (
    DatasetDetails,
    DatasetSummary,
    JobDetails,
    JobSummary,
    RunDetails,
    RunSummary,
    describe_dataset,
    describe_job,
    describe_run,
    find_run_facets,
    get_facet_history,
    read_facets_from_lake,
    to_dataset_summary,
    to_job_summary,
    to_run_summary,
)
from clew.query.graph.nodes import Node
from clew.query.graph.traversal import require_run
from clew.query.lineage import IndexFreshness
from clew.query.model import DatasetName
from clew.query.names import DATASET, JOB, RUN, UnknownNameError, node_kind, resolve_node_id

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


_NODE = StringParam(
    "nodeId",
    "Node id: dataset:NAMESPACE:NAME, job:NAMESPACE:NAME or run:UUID.",
    is_required=True,
    example="dataset:file:/data/orders.csv",
)


class FacetsResponse(Struct, frozen=True, rename="camel"):
    """Current facets by name, unmodified."""

    id: str
    facets: dict[str, Raw]


class FacetVersion(Struct, frozen=True, rename="camel"):
    """Value of a facet over a period; null while deleted."""

    facet: Raw | None
    first_at: str
    last_at: str
    first_run_id: str | None
    last_run_id: str | None
    events: int


class FacetHistory(Struct, frozen=True, rename="camel"):
    """Versions of a facet, newest first; `next` is the cursor of the next page."""

    id: str
    name: str
    versions: tuple[FacetVersion, ...]
    next: str | None


class DiffResponse(Struct, frozen=True, rename="camel"):
    """Diff of two runs or of two dataset versions; the other field is null."""

    runs: RunDiff | None
    versions: VersionDiff | None


def _facets(context: OperationContext) -> FacetsResponse:
    node_id: str = context["nodeId"]
    kind, index = node_kind(node_id), context.index
    if kind == RUN:
        run_uuid = node_id.partition(":")[2]
        require_run(index, run_uuid)
        facets = find_run_facets(index, run_uuid, context.resources.lake_location)
    else:
        node = resolve_node_id(index, node_id)
        node_id = node.id
        identity = (node.namespace, node.name) if kind == JOB else _dataset_version(context, node)
        facets = {name: Raw(facet) for name, facet in index.facets(kind, *identity).items()}
    name = context["name"]
    return FacetsResponse(
        node_id,
        facets if name is None else {facet_name: facet for facet_name, facet in facets.items() if facet_name == name},
    )


def _dataset_version(context: OperationContext, node: Node) -> tuple[str | None, ...]:
    """Return the dataset with the requested version, or the latest one with facets."""
    versions, requested = context.index.versions_with_facets(node.namespace, node.name), context["version"]
    if requested is not None and requested not in versions:
        raise UnknownNameError.of(f"version of {node.name}", requested, [version for version in versions if version])
    return node.namespace, node.name, requested if requested is not None or not versions else versions[0]


def _history(context: OperationContext) -> FacetHistory:
    node_id: str = context["nodeId"]
    kind, index = node_kind(node_id), context.index
    if kind == RUN:
        identity: tuple[str, ...] = (node_id.partition(":")[2],)
        require_run(index, identity[0])
    else:
        node = resolve_node_id(index, node_id)
        node_id, identity = node.id, (node.namespace, node.name)
    states = get_facet_history(context.resources.lake_location, kind, identity, context["name"])  # type: ignore[arg-type]
    values = _CURSOR.check_values(context["cursor"], int)
    start, limit = 0 if values is None else max(0, values[0]), context["limit"]
    versions = tuple(
        FacetVersion(
            state.facet,
            state.first_at.isoformat(),
            state.last_at.isoformat(),
            state.first_run_id,
            state.last_run_id,
            state.events,
        )
        for state in states[start : start + limit]
    )
    return FacetHistory(
        node_id, context["name"], versions, encode_cursor(start + limit) if start + limit < len(states) else None
    )


def _diff(context: OperationContext) -> DiffResponse:
    left, right, node_id = _strip_run_prefix(context["left"]), _strip_run_prefix(context["right"]), context["nodeId"]
    if node_id is not None:
        if node_kind(node_id) != DATASET:
            raise MalformedError("Only datasets have versions to compare.", hint="Pass runs with left and right.")
        node = resolve_node_id(context.index, node_id)
        dataset = DatasetName(node.namespace, node.name)
        return DiffResponse(None, diff_versions(context.index, dataset, left, right))
    if left is None or right is None:
        hint = "Pass left and right as run:UUID, or nodeId of a dataset."
        raise MalformedError("A diff needs two runs.", hint=hint)
    code = diff_code_by_name(_run_code(context, left), _run_code(context, right))
    return DiffResponse(diff_runs(context.index, left, right, code), None)


def _strip_run_prefix(name: str | None) -> str | None:
    return None if name is None else name.removeprefix("run:")


def _run_code(context: OperationContext, run_uuid: str) -> dict[str, str | None]:
    """Read the code of a run from the lake; the index has only the latest code of a job."""
    lake = context.resources.lake_location
    require_run(context.index, run_uuid)
    facets = None if lake is None else read_facets_from_lake(run_uuid, lake)
    return (
        {}
        if facets is None
        else {name: text for job in facets.jobs for name, text in code_from_facets(job.facets).items()}
    )


CHANGE_OPERATIONS: Final = (
    ApiOperation(
        "facets",
        "/api/v2/facets",
        "Get the facets of a dataset, job or run",
        (
            _NODE,
            StringParam("name", "Only this facet."),
            StringParam("version", "Version of the dataset (default: the latest one with facets)."),
        ),
        FacetsResponse,
        _facets,
    ),
    ApiOperation(
        "facetHistory",
        "/api/v2/facets/history",
        "Get the history of a facet",
        (
            _NODE,
            StringParam("name", "Name of the facet.", is_required=True, example="schema"),
            IntegerParam("limit", "Maximum number of results.", minimum=1, maximum=200, default_value=20),
            _CURSOR,
        ),
        FacetHistory,
        _history,
    ),
    ApiOperation(
        "diff",
        "/api/v2/diff",
        "Compare two runs or two versions of a dataset",
        (
            StringParam("left", "Run as run:UUID, or version of the dataset (default: the previous one)."),
            StringParam("right", "Run as run:UUID, or version of the dataset (default: the latest one)."),
            StringParam("nodeId", "Dataset, to compare its versions.", example="dataset:file:/data/orders.csv"),
        ),
        DiffResponse,
        _diff,
    ),
)
