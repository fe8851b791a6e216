"""Operations on datasets, jobs, runs, facets and diffs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Final, TypeAlias, TypeVar

from msgspec import Meta, Raw, Struct

from clew.api.v2.operation import (
    CursorParam,
    OperationContext,
    RequestParameters,
    TextParam,
    api_operation,
    decode_cursor,
    encode_cursor,
)
from clew.errors import MalformedError
from clew.index.backends.base import Row
from clew.index.queries.entities import Name
from clew.index.queries.lists import EntityFilter, EntityTable
from clew.index.queries.records import RunRecord
from clew.query.diff import RunDiff, VersionDiff
from clew.query.entities.datasets import describe_dataset
from clew.query.entities.facets import find_facets, find_run_facets, get_facet_history
from clew.query.entities.model import AssertionResult, CatalogDataset, CatalogJob, CatalogRun, RunDataset
from clew.query.entities.runs import describe_job, describe_run, to_run
from clew.query.graph.nodes import Node
from clew.query.lineage import IndexFreshness
from clew.query.model import DatasetName, State, from_epoch_micros
from clew.query.names import DATASET, RUN, node_kind, require_run, resolve_node_id

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
_RUN_PREFIX: Final = f"{RUN}:"
T = TypeVar("T")
R = TypeVar("R")


class TagInfo(Struct, frozen=True):
    """A tag; `field` is the tagged column, None for the entity itself."""

    key: str
    value: str | None
    field: str | None


class ColumnInfo(Struct, frozen=True):
    """A column of a schema."""

    name: str
    type: str | None = None
    description: str | None = None


class JobName(Struct, frozen=True, order=True):
    """A job by its OpenLineage identity."""

    namespace: str
    name: str


class RunIo(Struct, frozen=True, rename="camel"):
    """An input or output of a run, with its input or output facets; implied if only a lineage facet mentions it."""

    namespace: str
    name: str
    version: str | None
    row_count: int | None
    is_implied: bool
    facets: dict[str, Raw]


class RunSummary(Struct, frozen=True, rename="camel"):
    """A run in a list."""

    id: str
    state: State
    job: JobName | None
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: float | None


class RunDetails(Struct, frozen=True, rename="camel"):
    """Details of a run; a placeholder is only referenced by other runs."""

    id: str
    state: State
    job: JobName | None
    job_version: str | None
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: float | None
    nominal_start_at: datetime | None
    nominal_end_at: datetime | None
    parent_run_id: str | None
    root_run_id: str | None
    error: str | None
    session_id: str | None
    inputs: tuple[RunIo, ...]
    outputs: tuple[RunIo, ...]
    is_placeholder: bool
    facets: dict[str, Raw]
    assertions: tuple[AssertionResult, ...]


class DatasetSummary(Struct, frozen=True, rename="camel"):
    """A dataset in a list."""

    id: str
    namespace: str
    name: str
    last_event_at: datetime | None
    is_deleted: bool


class DatasetDetails(Struct, frozen=True, rename="camel"):
    """Details of a dataset; input and output facets are of its last reads and writes, `assertions` the last results."""

    id: str
    namespace: str
    name: str
    aliases: tuple[DatasetName, ...]
    renamed_from: DatasetName | None
    renamed_to: DatasetName | None
    lifecycle_state: str | None
    is_deleted: bool
    last_event_at: datetime | None
    written_at: datetime | None
    version: str | None
    description: str | None
    columns: tuple[ColumnInfo, ...]
    tags: tuple[TagInfo, ...]
    written_by: tuple[JobName, ...]
    read_by: tuple[JobName, ...]
    facets: dict[str, Raw]
    input_facets: dict[str, Raw]
    output_facets: dict[str, Raw]
    assertions: tuple[AssertionResult, ...]


class JobSummary(Struct, frozen=True, rename="camel"):
    """A job in a list."""

    id: str
    namespace: str
    name: str
    type: str | None
    last_event_at: datetime | None
    latest_run_id: str | None


class JobDetails(Struct, frozen=True, rename="camel"):
    """Details of a job."""

    id: str
    namespace: str
    name: str
    type: str | None
    integration: str | None
    processing_type: str | None
    description: str | None
    parent: JobName | None
    last_event_at: datetime | None
    latest_run: RunSummary | None
    inputs: tuple[DatasetName, ...]
    outputs: tuple[DatasetName, ...]
    tags: tuple[TagInfo, ...]
    is_placeholder: bool
    facets: dict[str, Raw]


def format_run_summary(run: CatalogRun) -> RunSummary:
    """Convert a run in a list."""
    return RunSummary(run.id, run.state, _job_name(run.job), run.started_at, run.ended_at, run.duration_ms)


def format_run_details(run: CatalogRun) -> RunDetails:
    """Convert a run."""
    return RunDetails(
        id=run.id,
        state=run.state,
        job=_job_name(run.job),
        job_version=run.job_version,
        started_at=run.started_at,
        ended_at=run.ended_at,
        duration_ms=run.duration_ms,
        nominal_start_at=run.nominal_start_at,
        nominal_end_at=run.nominal_end_at,
        parent_run_id=run.parent.run_id,
        root_run_id=run.root_run_id,
        error=run.error,
        session_id=run.session_id,
        inputs=tuple(map(_run_io, run.inputs)),
        outputs=tuple(map(_run_io, run.outputs)),
        is_placeholder=run.is_placeholder,
        facets=_sorted(run.facets),
        assertions=run.assertions,
    )


def format_dataset_details(dataset: CatalogDataset) -> DatasetDetails:
    """Convert a dataset."""
    name = dataset.namespace, dataset.name
    return DatasetDetails(
        id=Node("dataset", *name).id,
        namespace=dataset.namespace,
        name=dataset.name,
        aliases=tuple(DatasetName(*other) for other in sorted(dataset.names) if other != name),
        renamed_from=dataset.renamed_from,
        renamed_to=dataset.renamed_to,
        lifecycle_state=dataset.lifecycle_state,
        is_deleted=dataset.is_deleted,
        last_event_at=dataset.updated_at,
        written_at=dataset.written_at,
        version=dataset.facet_version,
        description=dataset.description,
        columns=tuple([ColumnInfo(field.name, field.type, field.description) for field in dataset.fields]),
        tags=tuple([TagInfo(tag.key, tag.value, tag.field) for tag in dataset.tags]),
        written_by=tuple([JobName(*job) for job in dataset.written_by]),
        read_by=tuple([JobName(*job) for job in dataset.read_by]),
        facets=_sorted(dataset.facets),
        input_facets=_sorted(dataset.input_facets),
        output_facets=_sorted(dataset.output_facets),
        assertions=dataset.assertions,
    )


def format_job_details(job: CatalogJob) -> JobDetails:
    """Convert a job."""
    return JobDetails(
        id=Node("job", job.namespace, job.name).id,
        namespace=job.namespace,
        name=job.name,
        type=job.type,
        integration=job.integration,
        processing_type=job.processing_type,
        description=job.description,
        parent=_job_name(job.parent),
        last_event_at=job.updated_at,
        latest_run=None if job.latest_run is None else format_run_summary(job.latest_run),
        inputs=tuple(DatasetName(*name) for name in job.reads),
        outputs=tuple(DatasetName(*name) for name in job.writes),
        tags=tuple(TagInfo(tag.key, tag.value, tag.field) for tag in job.tags),
        is_placeholder=job.is_placeholder,
        facets=_sorted(job.facets),
    )


def _job_name(name: Name | None) -> JobName | None:
    return None if name is None else JobName(*name)


def _run_io(dataset: RunDataset) -> RunIo:
    facets = _sorted(dataset.facets)
    return RunIo(dataset.namespace, dataset.name, dataset.version, dataset.row_count, dataset.is_implied, facets)


def _sorted(facets: dict[str, Raw]) -> dict[str, Raw]:
    return dict(sorted(facets.items()))


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


def _resolve(context: OperationContext, node_id: str, kind: str) -> Name:
    node = resolve_node_id(context.index, node_id)
    if node.kind != kind:
        raise MalformedError(f"{node_id[:200]!r} is a {node.kind}.", hint=f"Use /api/v2/{node.kind}.")
    return node.namespace, node.name


@api_operation("dataset", "/api/v2/dataset", "Get a dataset by any of its names", is_inline=True)
def _dataset(context: OperationContext, parameters: _DatasetParameters) -> DatasetDetails:
    name = _resolve(context, parameters.node_id, "dataset")
    return format_dataset_details(describe_dataset(context.index, name))


@api_operation("job", "/api/v2/job", "Get a job", is_inline=True)
def _job(context: OperationContext, parameters: _JobParameters) -> JobDetails:
    return format_job_details(describe_job(context.index, _resolve(context, parameters.node_id, "job")))


@api_operation("run", "/api/v2/runs/{runId}", "Get a run", is_inline=True)
def _run(context: OperationContext, parameters: _RunParameters) -> RunDetails:
    return format_run_details(describe_run(context.index, parameters.run_id, with_io_facets=True))


def _rows_by_name(context: OperationContext, parameters: _ListParameters, table: EntityTable) -> list[Row]:
    """Return a page of jobs or datasets, and the first row of the next page."""
    entities = EntityFilter(parameters.namespace, after=decode_cursor(parameters.cursor, tuple[str, str]))
    return context.index.entities(table, entities, "name", parameters.limit + 1)


@api_operation("datasets", "/api/v2/datasets", "List datasets by name")
def _datasets(context: OperationContext, parameters: _ListParameters) -> DatasetListResponse:
    rows = _rows_by_name(context, parameters, "dataset_states")
    states = context.index.activity_of(rows)

    def summarize(row: Row) -> DatasetSummary:
        name = row["namespace"], row["name"]
        at, is_deleted = states[name]
        return DatasetSummary(Node("dataset", *name).id, *name, from_epoch_micros(at), is_deleted)

    return DatasetListResponse(*_page(rows, parameters.limit, summarize, _name_cursor))


@api_operation("jobs", "/api/v2/jobs", "List jobs by name")
def _jobs(context: OperationContext, parameters: _ListParameters) -> JobListResponse:
    rows = _rows_by_name(context, parameters, "jobs")
    return JobListResponse(*_page(rows, parameters.limit, _job_summary, _name_cursor))


def _job_summary(row: Row) -> JobSummary:
    name = row["namespace"], row["name"]
    last_event_at = from_epoch_micros(row["last_event_at"])
    return JobSummary(Node("job", *name).id, *name, row["job_type"], last_event_at, row["latest_run_uuid"])


@api_operation("runs", "/api/v2/runs", "List the runs of a job, newest first")
def _runs(context: OperationContext, parameters: _RunListParameters) -> RunListResponse:
    job = _resolve(context, parameters.node_id, "job")
    before = decode_cursor(parameters.cursor, tuple[int | None, int, str])
    rows = context.index.runs_of_job(job, parameters.limit + 1, before=before)
    return RunListResponse(*_page(rows, parameters.limit, _run_summary, _run_cursor))


def _run_summary(row: RunRecord) -> RunSummary:
    return format_run_summary(to_run(row))


def _run_cursor(row: RunRecord) -> str:
    return encode_cursor(row.started_at, row.first_event_at, row.run_uuid)


def _name_cursor(row: Row) -> str:
    return encode_cursor(row["namespace"], row["name"])


def _page(
    rows: list[R], limit: int, entry: Callable[[R], T], cursor: Callable[[R], str]
) -> tuple[tuple[T, ...], str | None]:
    return tuple(map(entry, rows[:limit])), cursor(rows[limit - 1]) if len(rows) > limit else None


@api_operation("status", "/api/v2/status", "Get the position of the index in the log", is_inline=True)
def _status(context: OperationContext, _: RequestParameters) -> IndexStatusResponse:
    progress = context.index.version()
    return IndexStatusResponse(IndexFreshness(progress.indexed_seq, progress.indexed_at), progress.last_batch)


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


def _resolve_entity(context: OperationContext, node_id: str) -> tuple[str, Node | None]:
    """Return the canonical id of a run, job or dataset, and the node of a job or dataset."""
    if node_kind(node_id) == RUN:
        return _RUN_PREFIX + require_run(context.index, node_id.removeprefix(_RUN_PREFIX)).run_uuid, None
    node = resolve_node_id(context.index, node_id)
    return node.id, node


@api_operation("facets", "/api/v2/facets", "Get the facets of a dataset, job or run")
def _facets(context: OperationContext, parameters: _FacetsParameters) -> FacetsResponse:
    node_id, node = _resolve_entity(context, parameters.node_id)
    if node is None:
        facets = find_run_facets(context.index, node_id.removeprefix(_RUN_PREFIX))
    else:
        _, facets = find_facets(context.index, node, parameters.version)
    return FacetsResponse(node_id, {name: facet for name, facet in facets.items() if parameters.name in (None, name)})


@api_operation("facetHistory", "/api/v2/facets/history", "Get the history of a facet")
def _history(context: OperationContext, parameters: _FacetHistoryParameters) -> FacetHistory:
    node_id, node = _resolve_entity(context, parameters.node_id)
    kind = RUN if node is None else node.kind
    identity = (node_id.removeprefix(_RUN_PREFIX),) if node is None else (node.namespace, node.name)
    states = get_facet_history(context.index, context.resources.lake_location, kind, identity, parameters.name)
    values = decode_cursor(parameters.cursor, tuple[int])
    start = 0 if values is None else max(0, values[0])
    end = start + parameters.limit
    versions = tuple(
        FacetVersion(
            state.facet,
            state.first_at.isoformat(),
            state.last_at.isoformat(),
            state.first_run_id,
            state.last_run_id,
            state.events,
        )
        for state in states[start:end]
    )
    return FacetHistory(node_id, parameters.name, versions, encode_cursor(end) if end < len(states) else None)


@api_operation("diff", "/api/v2/diff", "Compare two runs or two versions of a dataset")
def _diff(context: OperationContext, parameters: _DiffParameters) -> DiffResponse:
    left, right = (name and name.removeprefix(_RUN_PREFIX) for name in (parameters.left, parameters.right))
    if parameters.node_id is not None:
        if node_kind(parameters.node_id) != DATASET:
            raise MalformedError("Only datasets have versions to compare.", hint="Pass runs with left and right.")
        node = resolve_node_id(context.index, parameters.node_id)
        dataset = DatasetName(node.namespace, node.name)
        return DiffResponse(None, context.service.diff_versions(dataset, left, right))
    if left is None or right is None:
        hint = "Pass left and right as run:UUID, or nodeId of a dataset."
        raise MalformedError("A diff needs two runs.", hint=hint)
    return DiffResponse(context.service.diff_runs(left, right), None)


ENTITY_OPERATIONS: Final = (_dataset, _job, _run, _datasets, _jobs, _runs, _status)
CHANGE_OPERATIONS: Final = (_facets, _history, _diff)
