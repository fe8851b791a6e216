"""Operations on datasets, jobs, runs, facets and diffs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from clew.api.v2.operation import (
    ApiOperation,
    CursorParam,
    NeedsThreadError,
    OperationContext,
    RequestParameters,
    TextParam,
    decode_cursor,
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

_Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1000, description="Maximum number of results.")]
_DatasetId: TypeAlias = Annotated[
    TextParam, Meta(description="Node id: dataset:NAMESPACE:NAME.", examples=["dataset:file:/data/orders.csv"])
]
_JobId: TypeAlias = Annotated[
    TextParam, Meta(description="Node id: job:NAMESPACE:NAME.", examples=["job:marimo:orders"])
]
_NodeId: TypeAlias = Annotated[
    TextParam,
    Meta(
        description="Node id: dataset:NAMESPACE:NAME, job:NAMESPACE:NAME or run:UUID.",
        examples=["dataset:file:/data/orders.csv"],
    ),
]
T = TypeVar("T")


class _DatasetParameters(RequestParameters):
    node_id: _DatasetId


class _JobParameters(RequestParameters):
    node_id: _JobId


class _RunParameters(RequestParameters):
    run_id: Annotated[TextParam, Meta(description="OpenLineage runId.")]


class _ListParameters(RequestParameters):
    namespace: Annotated[TextParam | None, Meta(description="Only this namespace.")] = None
    limit: _Limit = 100
    cursor: CursorParam = None


class _RunListParameters(RequestParameters):
    node_id: _JobId
    limit: _Limit = 100
    cursor: CursorParam = None


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
    after = decode_cursor(context["cursor"], tuple[str, str]) or ("", "")
    rows = entities.datasets_after(context.index, context["namespace"], after, context["limit"] + 1)
    return DatasetListResponse(
        *_page(rows, context["limit"], to_dataset_summary, lambda row: encode_cursor(row["namespace"], row["name"]))
    )


def _jobs(context: OperationContext) -> JobListResponse:
    after = decode_cursor(context["cursor"], tuple[str, str]) or ("", "")
    rows = entities.jobs_after(context.index, context["namespace"], after, context["limit"] + 1)
    return JobListResponse(*_page(rows, context["limit"], to_job_summary, _name_cursor))


def _runs(context: OperationContext) -> RunListResponse:
    node = _find_node(context, "job")
    before = decode_cursor(context["cursor"], tuple[int | None, str])
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


ENTITY_OPERATIONS: Final = (
    ApiOperation(
        "dataset",
        "/api/v2/dataset",
        "Get a dataset by any of its names",
        _DatasetParameters,
        DatasetDetails,
        _dataset,
        is_inline=True,
    ),
    ApiOperation("job", "/api/v2/job", "Get a job", _JobParameters, JobDetails, _job, is_inline=True),
    ApiOperation(
        "run",
        "/api/v2/runs/{runId}",
        "Get a run",
        _RunParameters,
        RunDetails,
        _run,
        is_inline=True,
    ),
    ApiOperation(
        "datasets",
        "/api/v2/datasets",
        "List datasets by name",
        _ListParameters,
        DatasetListResponse,
        _datasets,
    ),
    ApiOperation("jobs", "/api/v2/jobs", "List jobs by name", _ListParameters, JobListResponse, _jobs),
    ApiOperation(
        "runs",
        "/api/v2/runs",
        "List the runs of a job, newest first",
        _RunListParameters,
        RunListResponse,
        _runs,
    ),
    ApiOperation(
        "status",
        "/api/v2/status",
        "Get the position of the index in the log",
        RequestParameters,
        IndexStatusResponse,
        _status,
        is_inline=True,
    ),
)


class _FacetsParameters(RequestParameters):
    node_id: _NodeId
    name: Annotated[TextParam | None, Meta(description="Only this facet.")] = None
    version: Annotated[
        TextParam | None, Meta(description="Version of the dataset (default: the latest one with facets).")
    ] = None


class _FacetHistoryParameters(RequestParameters):
    node_id: _NodeId
    name: Annotated[TextParam, Meta(description="Name of the facet.", examples=["schema"])]
    limit: Annotated[int, Meta(ge=1, le=200, description="Maximum number of results.")] = 20
    cursor: CursorParam = None


class _DiffParameters(RequestParameters):
    left: Annotated[
        TextParam | None, Meta(description="Run as run:UUID, or version of the dataset (default: the previous one).")
    ] = None
    right: Annotated[
        TextParam | None, Meta(description="Run as run:UUID, or version of the dataset (default: the latest one).")
    ] = None
    node_id: Annotated[
        TextParam | None,
        Meta(description="Dataset, to compare its versions.", examples=["dataset:file:/data/orders.csv"]),
    ] = None


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
    values = decode_cursor(context["cursor"], tuple[int])
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
        _FacetsParameters,
        FacetsResponse,
        _facets,
    ),
    ApiOperation(
        "facetHistory",
        "/api/v2/facets/history",
        "Get the history of a facet",
        _FacetHistoryParameters,
        FacetHistory,
        _history,
    ),
    ApiOperation(
        "diff",
        "/api/v2/diff",
        "Compare two runs or two versions of a dataset",
        _DiffParameters,
        DiffResponse,
        _diff,
    ),
)
