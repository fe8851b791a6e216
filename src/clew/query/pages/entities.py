"""Pages of a run, a job, a dataset, and of a diff."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec
from msgspec import Struct

from clew.data_dir import LakeLocation
from clew.index.backends.base import Row
from clew.index.queries.lists import PageQueries
from clew.query.diff import (
    DatasetDiff,
    EdgeKey,
    IoDiff,
    RunChange,
    RunChanges,
    RunDiff,
    code_from_facets,
    compare_runs,
    diff_code_by_name,
    diff_runs,
    duration_changes,
    order_by_importance,
)
from clew.query.entities.facets import read_facets_from_lake
from clew.query.graph.traversal import require_run
from clew.query.model import EdgeType, NotebookRun, from_epoch_micros
from clew.query.names import UnknownNameError
from clew.query.notebooks.session import display_name, find_notebook_run
from clew.query.pages.lists import EntityName, Facets, RunListItem, Usage, to_raw, to_run_item, to_usages

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
    previous: RunListItem | None
    nominal_start: datetime | None
    nominal_end: datetime | None
    facets: Facets
    job_facets: Facets
    inputs: tuple[RunIoView, ...]
    outputs: tuple[RunIoView, ...]
    children: tuple[RunListItem, ...]
    child_total: int


def build_run_view(index: PageQueries, run_uuid: str) -> RunView:
    """Build the page of a run."""
    row = index.run(run_uuid)
    if row is None:
        raise UnknownNameError.of("run", run_uuid, [other["run_uuid"] for other in index.run_page("", "", 1000)[0]])
    run = to_run_item(row)
    children, total = index.children(run_uuid, _MAX_CHILDREN)
    io = index.run_io(run_uuid)
    parent = None if row["parent_run_uuid"] is None else index.run(row["parent_run_uuid"])
    return RunView(
        run=run,
        error=row["error_message"],
        parent=None if parent is None else to_run_item(parent),
        previous=_previous(index, row),
        nominal_start=from_epoch_micros(row["nominal_start_at"]),
        nominal_end=from_epoch_micros(row["nominal_end_at"]),
        facets=to_raw(index.facets("run", run_uuid)),
        job_facets={} if run.job is None else to_raw(index.facets("job", *run.job.key)),
        inputs=tuple(_to_io(index, used) for used in io if used["direction"] == "INPUT"),
        outputs=tuple(_to_io(index, used) for used in io if used["direction"] == "OUTPUT"),
        children=tuple(map(to_run_item, children)),
        child_total=total,
    )


def _previous(index: PageQueries, row: Row) -> RunListItem | None:
    """Return the previous run of the same job, for comparison."""
    if row["job_name"] is None or row["started_at"] is None:
        return None
    runs, _ = index.runs_of((row["job_namespace"], row["job_name"]), 1000)
    return next((to_run_item(other) for other in runs if (other["started_at"] or 0) < row["started_at"]), None)


def _to_io(index: PageQueries, row: Row) -> RunIoView:
    key = (row["dataset_namespace"], row["dataset_name"], row["dataset_version"] or None)
    return RunIoView(
        dataset=EntityName(*key[:2]),
        version=key[2],
        row_count=row["row_count"],
        is_implied=bool(row["is_implied"]),
        facets=to_raw(index.run_dataset_facets(row["direction"], *key, row["run_uuid"])),
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


def build_job_view(index: PageQueries, name: EntityName) -> JobView:
    """Build the page of a job."""
    row = index.job(name.key)
    if row is None:
        existing, _ = index.job_page("", 1000)
        raise UnknownNameError.of("job", name.name, [other["name"] for other in existing])
    runs, total = index.runs_of(name.key, _MAX_RUNS)
    return JobView(
        job=name,
        kind=row["job_type"],
        integration=row["integration"],
        description=row["description"],
        at=from_epoch_micros(row["last_event_at"]),
        facets=to_raw(index.facets("job", *name.key)),
        inputs=to_usages(index.datasets_used_by(name.key, "INPUT"), "dataset"),
        outputs=to_usages(index.datasets_used_by(name.key, "OUTPUT"), "dataset"),
        runs=tuple(map(to_run_item, runs)),
        run_total=total,
    )


_MAX_VERSIONS = 60
_MAX_EDGES = 20_000
_MAX_NULL_COLUMNS = 5
# Input and output facets with metrics.
_METRIC_FACETS = ("outputStatistics", "inputStatistics", "dataQualityMetrics")


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
    versions: tuple[DatasetVersionItem, ...]
    version_total: int
    producers: tuple[Usage, ...]
    consumers: tuple[Usage, ...]
    series: tuple[Series, ...]


class _Field(Struct):
    name: str
    type: str | None = None
    description: str | None = None


class _Schema(Struct):
    fields: list[_Field] | None = None


_decode_schema = msgspec.json.Decoder(_Schema, strict=False).decode


def build_dataset_view(index: PageQueries, name: EntityName) -> DatasetView:
    """Build the page of a dataset, by any of its names."""
    names = [EntityName(*key) for key in index.aliases_of(name.key)]
    rows = [row for alias in names if (row := index.dataset(alias.key)) is not None]
    if not rows:
        existing, _ = index.dataset_page("", 1000)
        raise UnknownNameError.of("dataset", name.name, [row["name"] for row in existing])
    facets, facet_version = _facets(index, names)
    edges = [edge for alias in names for edge in index.latest_column_edges(alias.key, _MAX_EDGES)]
    writes = [index.versions_of(alias.key, _MAX_VERSIONS) for alias in names]
    versions = sorted((row for rows, _ in writes for row in rows), key=_write_order, reverse=True)[:_MAX_VERSIONS]
    return DatasetView(
        dataset=name,
        aliases=tuple(names[1:]),
        is_deleted=all(row["is_deleted"] for row in rows),
        at=max((at for row in rows if (at := from_epoch_micros(row["last_event_at"]))), default=None),
        columns=_columns(facets, edges),
        dataset_level_sources=tuple(_source(edge) for edge in edges if edge["column"] is None),
        facets=facets,
        facet_version=facet_version,
        versions=_versions(versions),
        version_total=sum(total for _, total in writes),
        producers=_jobs_using(index, names, "OUTPUT"),
        consumers=_jobs_using(index, names, "INPUT"),
        series=_series(index, versions),
    )


def _facets(index: PageQueries, names: Iterable[EntityName]) -> tuple[Facets, str | None]:
    """Return the facets of the latest version that has any, by the first name that has any, and the version."""
    for name in names:
        versions = index.versions_with_facets(*name.key)
        if versions:
            return to_raw(index.facets("dataset", *name.key, versions[0])), versions[0]
    return {}, None


def _jobs_using(index: PageQueries, names: Iterable[EntityName], direction: str) -> tuple[Usage, ...]:
    return to_usages((row for name in names for row in index.jobs_using(name.key, direction)), "job")


def _columns(facets: Facets, edges: Iterable[Row]) -> tuple[DatasetColumn, ...]:
    sources: defaultdict[str, list[ColumnSource]] = defaultdict(list)
    for edge in edges:
        if edge["column"] is not None:
            sources[edge["column"]].append(_source(edge))
    fields = {field.name: field for field in _schema(facets)}
    all_fields = [*fields.values(), *(_Field(name) for name in sources if name not in fields)]
    return tuple(
        DatasetColumn(field.name, field.type, field.description, tuple(sources[field.name])) for field in all_fields
    )


def _schema(facets: Facets) -> list[_Field]:
    try:
        return _decode_schema(facets["schema"]).fields or [] if "schema" in facets else []
    except msgspec.DecodeError:
        return []


def _source(edge: Row) -> ColumnSource:
    return ColumnSource(
        dataset=EntityName(edge["source_namespace"], edge["source_name"]),
        column=edge["source_column"],
        type="INDIRECT" if edge["type"] == "INDIRECT" else "DIRECT",
        subtype=edge["subtype"],
        is_inferred=edge["description"] in {"opaque", "inferred"},
    )


def _write_order(row: Row) -> tuple[int, int]:
    return row["created_at"] or 0, row["last_seq"]


def _versions(rows: list[Row]) -> tuple[DatasetVersionItem, ...]:
    previous_schemas = [*(row["schema_id"] for row in rows), None][1:]
    return tuple(
        DatasetVersionItem(
            version=row["version"],
            at=from_epoch_micros(row["created_at"]),
            run_uuid=row["run_uuid"],
            job=None if row["job_name"] is None else EntityName(row["job_namespace"] or "", row["job_name"]),
            row_count=row["row_count"],
            lifecycle=row["lifecycle_state"],
            has_new_schema=None not in (row["schema_id"], previous) and row["schema_id"] != previous,
        )
        for row, previous in zip(rows, previous_schemas, strict=True)
    )


def _series(index: PageQueries, rows: Iterable[Row]) -> tuple[Series, ...]:
    """Return the metrics of writes that have at least two points."""
    series: defaultdict[str, list[SeriesPoint]] = defaultdict(list)
    for row in sorted(rows, key=_write_order):
        at = from_epoch_micros(row["created_at"])
        if at is not None and row["run_uuid"] is not None:
            for name, value in _metrics(index, row).items():
                series[name].append(SeriesPoint(at, value, row["run_uuid"]))
    return tuple(Series(name, tuple(points)) for name, points in series.items() if len(points) > 1)


def _metrics(index: PageQueries, row: Row) -> dict[str, float]:
    metrics: dict[str, float] = {} if row["row_count"] is None else {"rows": row["row_count"]}
    key = (row["dataset_namespace"], row["dataset_name"], row["version"])
    facets = index.run_dataset_facets("OUTPUT", *key, row["run_uuid"])
    for name in _METRIC_FACETS:
        if name in facets:
            metrics |= _parse_metrics(facets[name])
    return metrics


def _parse_metrics(facet: bytes) -> dict[str, float]:
    """Parse the row, byte and file counts and the null counts of the first columns."""
    try:
        values = msgspec.json.decode(facet, type=dict[str, msgspec.Raw])
        metrics = {
            name: float(msgspec.json.decode(values[key], type=float, strict=False))
            for key, name in (("rowCount", "rows"), ("size", "bytes"), ("bytes", "bytes"), ("fileCount", "files"))
            if key in values
        }
        columns = msgspec.json.decode(values.get("columnMetrics", msgspec.Raw(b"{}")), type=dict[str, _ColumnMetrics])
    except msgspec.DecodeError:
        return {}
    nulls = {
        f"nulls in {name}": float(column.null_count)
        for name, column in list(columns.items())[:_MAX_NULL_COLUMNS]
        if column.null_count is not None
    }
    return metrics | nulls


class _ColumnMetrics(Struct, rename="camel"):
    null_count: float | None = None


def build_run_changes(index: PageQueries, lake: LakeLocation | None, before: str, after: str) -> RunChanges:
    """List the changes between two runs; notebook runs are compared cell by cell."""
    notebooks = _notebook(index, before), _notebook(index, after)
    if notebooks[0] is not None and notebooks[1] is not None:
        return compare_runs(notebooks[0], notebooks[1])
    old, new = to_run_item(require_run(index, before)), to_run_item(require_run(index, after))
    code = diff_code_by_name(_code(before, lake), _code(after, lake))
    return RunChanges(
        before=before,
        before_at=old.started_at,
        after=after,
        after_at=new.started_at,
        name=new.job.name if new.job else after,
        changes=order_by_importance(_changes(diff_runs(index, before, after, code))),
    )


def _notebook(index: PageQueries, run: str) -> NotebookRun | None:
    row = index.run(run)
    is_root = row is None or row["parent_run_uuid"] is None
    session = run if row is None else row["session_id"]
    return find_notebook_run(index, session) if session and is_root else None


def _code(run_uuid: str, lake: LakeLocation | None) -> dict[str, str | None]:
    """Read the code of a run from the lake; the index has only the latest code of its job."""
    facets = None if lake is None else read_facets_from_lake(run_uuid, lake)
    return (
        {}
        if facets is None
        else {name: text for job in facets.jobs for name, text in code_from_facets(job.facets).items()}
    )


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
    rows, schema = changed.row_count, changed.schema
    if rows is not None and rows.left is not None and rows.right is not None:
        yield RunChange("rows", label, before=rows.left, after=rows.right)
    if schema is not None and (schema.added or schema.removed):
        yield RunChange("columns", label, added=schema.added, removed=schema.removed)
    if schema is not None and schema.retyped:
        yield RunChange(
            "types", label, added=tuple(f"{column.name}: {column.left} → {column.right}" for column in schema.retyped)
        )
    if changed.lineage is not None:
        added, removed = (tuple(map(_format_edge, edges)) for edges in (changed.lineage.added, changed.lineage.removed))
        yield RunChange("lineage", label, added=added, removed=removed)


def _format_edge(edge: EdgeKey) -> str:
    return f"{edge.column or 'all columns'} ← {display_name(edge.source)} · {edge.source_column or 'all columns'}"
