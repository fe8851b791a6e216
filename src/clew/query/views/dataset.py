"""Dataset page: columns with sources, facets, versions, producers, consumers and metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec import Struct

from clew.index.browsing import PageQueries
from clew.index.reader import Row
from clew.query.model import EdgeType
from clew.query.moments import from_epoch_micros
from clew.query.names import UnknownNameError
from clew.query.views.model import EntityName, Facets, Usage, to_raw, to_usages

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
    facets = index.facets("output", row["run_uuid"], *key)
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
