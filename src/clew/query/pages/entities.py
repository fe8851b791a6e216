"""Pages of a run, a job, a dataset, and of a diff."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from clew.data_dir import LakeLocation
from clew.events.facets import METRICS_FACET
from clew.events.openlineage import to_epoch_micros
from clew.index.encoding import entity_key
from clew.index.queries.entities import Facets, Name
from clew.index.queries.reader import IndexReader
from clew.query.diff import (
    DatasetDiff,
    EdgeKey,
    IoDiff,
    RunChange,
    RunChanges,
    RunDiff,
    compare_runs,
    diff_runs,
    duration_changes,
    order_by_importance,
    schema_changes,
)
from clew.query.entities.datasets import ColumnSourceCache, load_datasets
from clew.query.entities.model import (
    AssertionResult,
    CatalogDataset,
    CatalogRun,
    ColumnSources,
    RunDataset,
    SchemaField,
    VersionCache,
    VersionRecord,
)
from clew.query.entities.runs import describe_job, describe_run, to_run
from clew.query.model import EdgeType, NotebookRun, to_edge_type
from clew.query.names import UnknownNameError
from clew.query.notebooks.session import display_name, find_notebook_run, lineage_flag
from clew.query.pages.lists import EntityName, RunListItem, Usage, load_run_items, to_run_item, to_usages
from clew.query.quality import load_dataset_assertions, parse_quality_metrics

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
    # The job of the parent run, if the run itself is not known.
    parent_job: EntityName | None
    previous: RunListItem | None
    nominal_start: datetime | None
    nominal_end: datetime | None
    facets: Facets
    job_facets: Facets
    inputs: tuple[RunIoView, ...]
    outputs: tuple[RunIoView, ...]
    assertions: tuple[AssertionResult, ...]
    children: tuple[RunListItem, ...]
    child_total: int


def build_run_view(index: IndexReader, run_uuid: str) -> RunView:
    """Build the page of a run."""
    run = describe_run(index, run_uuid, with_io_facets=True)
    children, total = index.children(run_uuid, _MAX_CHILDREN)
    parent = None if run.parent.run_id is None else index.runs_of([run.parent.run_id]).get(run.parent.run_id)
    return RunView(
        run=to_run_item(run),
        error=run.error,
        parent=None if parent is None else to_run_item(to_run(parent)),
        parent_job=EntityName(run.parent.namespace or "", run.parent.name) if not parent and run.parent.name else None,
        previous=_previous(index, run),
        nominal_start=run.nominal_start_at,
        nominal_end=run.nominal_end_at,
        facets=run.facets,
        job_facets={} if run.job is None else _job_facets(index, run.job),
        inputs=tuple(map(_to_io, run.inputs)),
        outputs=tuple(map(_to_io, run.outputs)),
        assertions=run.assertions,
        children=load_run_items(index, children),
        child_total=total,
    )


def _previous(index: IndexReader, run: CatalogRun) -> RunListItem | None:
    """Return the previous run of the same job, for comparison."""
    if run.job is None or run.started_at is None:
        return None
    started_at = to_epoch_micros(run.started_at)
    return next(iter(load_run_items(index, index.runs_of_job(run.job, 1, before=(started_at, 0, "")))), None)


def _job_facets(index: IndexReader, job: Name) -> Facets:
    key = "job", entity_key(*job)
    return index.facets_of([key]).get(key, {})


def _to_io(dataset: RunDataset) -> RunIoView:
    return RunIoView(
        dataset=EntityName(dataset.namespace, dataset.name),
        version=dataset.version,
        row_count=dataset.row_count,
        is_implied=dataset.is_implied,
        facets=dataset.facets,
    )


_MAX_RUNS = 60


class JobView(Struct, frozen=True, rename="camel"):
    """Content of the job page; runs are newest first."""

    job: EntityName
    kind: str | None
    integration: str | None
    description: str | None
    at: datetime | None
    facets: Facets
    inputs: tuple[Usage, ...]
    outputs: tuple[Usage, ...]
    runs: tuple[RunListItem, ...]
    run_total: int


def build_job_view(index: IndexReader, name: EntityName) -> JobView:
    """Build the page of a job."""
    job = describe_job(index, name.key)
    return JobView(
        job=name,
        kind=job.type,
        integration=job.integration,
        description=job.description,
        at=job.updated_at,
        facets=job.facets,
        inputs=to_usages(index.datasets_used_by(name.key, "INPUT"), "dataset"),
        outputs=to_usages(index.datasets_used_by(name.key, "OUTPUT"), "dataset"),
        runs=load_run_items(index, index.runs_of_job(name.key, _MAX_RUNS)),
        run_total=index.count_runs(name.key),
    )


_MAX_VERSIONS = 60
_MAX_NULL_COLUMNS = 5
# Input and output facets with metrics.
_METRIC_FACETS = ("outputStatistics", "inputStatistics", METRICS_FACET)


class ColumnSource(Struct, frozen=True, rename="camel"):
    """A direct or indirect source of a column."""

    dataset: EntityName
    column: str | None
    type: EdgeType
    subtype: str | None
    is_inferred: bool


class DatasetColumn(Struct, frozen=True, rename="camel"):
    """A column with its sources."""

    name: str
    type: str | None
    description: str | None
    sources: tuple[ColumnSource, ...]


class DatasetVersionItem(Struct, frozen=True, rename="camel"):
    """A completed write, or a declaration by a DatasetEvent."""

    version: str | None
    at: datetime | None
    run_uuid: str | None
    job: EntityName | None
    row_count: int | None
    lifecycle: str | None
    has_new_schema: bool


class SeriesPoint(Struct, frozen=True, rename="camel"):
    """The value of a metric at a time."""

    at: datetime
    value: float
    run_uuid: str | None


class Series(Struct, frozen=True):
    """A metric over time, oldest first."""

    name: str
    points: tuple[SeriesPoint, ...]


class DatasetView(Struct, frozen=True, rename="camel"):
    """Content of the dataset page."""

    dataset: EntityName
    aliases: tuple[EntityName, ...]
    is_deleted: bool
    at: datetime | None
    columns: tuple[DatasetColumn, ...]
    # Sources that affect every column, such as filters and join keys.
    dataset_level_sources: tuple[ColumnSource, ...]
    facets: Facets
    facet_version: str | None
    # Of the last reads and writes.
    input_facets: Facets
    output_facets: Facets
    assertions: tuple[AssertionResult, ...]
    versions: tuple[DatasetVersionItem, ...]
    version_total: int
    producers: tuple[Usage, ...]
    consumers: tuple[Usage, ...]
    series: tuple[Series, ...]


def build_dataset_view(index: IndexReader, name: EntityName) -> DatasetView:
    """Build the page of a dataset, by any of its names."""
    names = index.aliases_of(name.key)
    versions = VersionCache(index, {name.key: names})
    datasets = load_datasets(index, {name.key: names}, versions, column_sources=ColumnSourceCache(index))
    if not datasets:
        raise UnknownNameError.of_entity(index, "dataset", name.name)
    (dataset,) = datasets
    writes = versions.get(name.key)
    latest = writes[-_MAX_VERSIONS:]
    assertions, assertion_history = load_dataset_assertions(index, names)
    return DatasetView(
        dataset=name,
        aliases=tuple(EntityName(*alias) for alias in names if alias != name.key),
        is_deleted=dataset.is_deleted,
        at=dataset.updated_at,
        columns=_columns(dataset),
        dataset_level_sources=tuple(
            item for column in dataset.columns if column.name is None for item in _sources(column)
        ),
        facets=dataset.facets,
        facet_version=dataset.facet_version,
        input_facets=dataset.input_facets,
        output_facets=dataset.output_facets,
        assertions=assertions,
        versions=_versions(index, latest),
        version_total=len(writes),
        producers=_jobs_using(index, names, "OUTPUT"),
        consumers=_jobs_using(index, names, "INPUT"),
        series=(*_series(index, latest), *_failure_series(assertion_history)),
    )


def _jobs_using(index: IndexReader, names: Iterable[Name], direction: str) -> tuple[Usage, ...]:
    return to_usages((row for name in names for row in index.jobs_using(name, direction)), "job")


def _columns(dataset: CatalogDataset) -> tuple[DatasetColumn, ...]:
    sources = {column.name: tuple(_sources(column)) for column in dataset.columns if column.name is not None}
    fields = {field.name: field for field in dataset.fields}
    all_fields = [*fields.values(), *(SchemaField(name) for name in sources if name not in fields)]
    return tuple(
        DatasetColumn(field.name, field.type, field.description, sources.get(field.name, ())) for field in all_fields
    )


def _sources(column: ColumnSources) -> Iterator[ColumnSource]:
    for source in column.sources:
        for transformation in source.transformations:
            yield ColumnSource(
                dataset=EntityName(source.namespace, source.dataset),
                column=source.field,
                type=to_edge_type(transformation.type),
                subtype=transformation.subtype,
                is_inferred=lineage_flag(transformation.description) is not None,
            )


def _versions(index: IndexReader, writes: list[VersionRecord]) -> tuple[DatasetVersionItem, ...]:
    """Convert versions, newest first."""
    runs = index.runs_of({write.run_uuid for write in writes if write.run_uuid is not None})
    items = []
    for write, previous in zip(writes, [None, *writes], strict=False):
        run = runs.get(write.run_uuid or "")
        schemas = None if previous is None else previous.schema_id, write.schema_id
        items.append(
            DatasetVersionItem(
                version=write.producer_version or None,
                at=write.created_at,
                run_uuid=write.run_uuid,
                job=None if run is None or run.job_name is None else EntityName(run.job_namespace or "", run.job_name),
                row_count=write.row_count,
                lifecycle=write.lifecycle_state,
                has_new_schema=None not in schemas and schemas[0] != schemas[1],
            )
        )
    return tuple(reversed(items))


def _series(index: IndexReader, writes: Iterable[VersionRecord]) -> tuple[Series, ...]:
    """Return the metrics of writes that have at least two points."""
    series: defaultdict[str, list[SeriesPoint]] = defaultdict(list)
    for write in writes:
        if write.created_at is not None and write.run_uuid is not None:
            for name, value in _metrics(index, write, write.run_uuid).items():
                series[name].append(SeriesPoint(write.created_at, value, write.run_uuid))
    return tuple(Series(name, tuple(points)) for name, points in series.items() if len(points) > 1)


def _failure_series(history: Iterable[tuple[AssertionResult, ...]]) -> Iterator[Series]:
    """Yield the number of failed tests over time, if it was ever above zero."""
    points = [
        SeriesPoint(results[0].at, sum(result.success is False for result in results), results[0].run_uuid)
        for results in history
        if results and results[0].at is not None
    ]
    if len(points) > 1 and any(point.value for point in points):
        yield Series("failed tests", tuple(sorted(points, key=lambda point: point.at)))


def _metrics(index: IndexReader, write: VersionRecord, run_uuid: str) -> dict[str, float]:
    metrics: dict[str, float] = {} if write.row_count is None else {"rows": write.row_count}
    facets = index.run_dataset_facets("OUTPUT", *write.dataset, write.producer_version, run_uuid)
    for name in _METRIC_FACETS:
        if name in facets:
            metrics |= _parse_metrics(facets[name])
    return metrics


def _parse_metrics(facet: bytes) -> dict[str, float]:
    """Parse the row, byte and file counts and the null counts of the first columns."""
    metrics = parse_quality_metrics(facet)
    counts = {"rows": metrics.row_count, "bytes": metrics.bytes, "files": metrics.file_count}
    nulls = {f"nulls in {name}": column.null_count for name, column in metrics.columns.items()}
    shown = {**counts, **dict(list(nulls.items())[:_MAX_NULL_COLUMNS])}
    return {name: float(count) for name, count in shown.items() if count is not None}


def build_run_changes(index: IndexReader, lake: LakeLocation | None, before: str, after: str) -> RunChanges:
    """List the changes between two runs; notebook runs are compared cell by cell."""
    notebooks = _notebook(index, before), _notebook(index, after)
    if notebooks[0] is not None and notebooks[1] is not None:
        return compare_runs(notebooks[0], notebooks[1])
    old, new = (to_run_item(describe_run(index, run)) for run in (before, after))
    return RunChanges(
        before=before,
        before_at=old.started_at,
        after=after,
        after_at=new.started_at,
        name=new.job.name if new.job else after,
        changes=order_by_importance(_changes(diff_runs(index, before, after, lake))),
    )


def _notebook(index: IndexReader, name: str) -> NotebookRun | None:
    run = index.runs_of([name]).get(name)
    is_root = run is None or run.parent_run_uuid is None
    session = name if run is None else run.session_id
    return find_notebook_run(index, session) if session and is_root else None


def _changes(diff: RunDiff) -> Iterator[RunChange]:
    if diff.state is not None and "FAILED" in (diff.state.left, diff.state.right):
        yield RunChange("failed" if diff.state.right == "FAILED" else "recovered", "the run")
    for io in (diff.inputs, diff.outputs):
        yield from _io_changes(io)
    for code in diff.code:
        yield RunChange("code", code.name, diff=code.text)
    if diff.duration_ms is not None:
        yield from duration_changes(diff.duration_ms.left or 0.0, diff.duration_ms.right or 0.0)


def _io_changes(io: IoDiff) -> Iterator[RunChange]:
    yield from (RunChange("added", display_name(dataset)) for dataset in io.added)
    yield from (RunChange("removed", display_name(dataset)) for dataset in io.removed)
    for changed in io.changed:
        yield from _dataset_changes(changed)


def _dataset_changes(changed: DatasetDiff) -> Iterator[RunChange]:
    label = display_name(changed.dataset)
    rows = changed.row_count
    if rows is not None and rows.left is not None and rows.right is not None:
        yield RunChange("rows", label, before=rows.left, after=rows.right)
    yield from schema_changes(label, changed.schema, (None, None))
    if changed.lineage is not None:
        added, removed = (tuple(map(_format_edge, edges)) for edges in (changed.lineage.added, changed.lineage.removed))
        yield RunChange("lineage", label, added=added, removed=removed)


def _format_edge(edge: EdgeKey) -> str:
    return f"{edge.column or 'all columns'} ← {display_name(edge.source)} · {edge.source_column or 'all columns'}"
