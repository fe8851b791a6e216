"""One dataset: its columns and where they come from, who writes and reads it, what was written when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec import Struct

from clew.index.browsing import Browser
from clew.index.reader import Row
from clew.query.model import EdgeType
from clew.query.moments import moment
from clew.query.names import UnknownNameError
from clew.query.views.model import Facets, Name, Touch, raw, touches

_MOST_VERSIONS = 60
_MOST_EDGES = 20_000
_MOST_NAMES = 5
# The facets that a run gives to what it read or wrote, in which figures stand.
_MEASURED = ("outputStatistics", "inputStatistics", "dataQualityMetrics")


class Source(Struct, frozen=True, rename="camel"):
    """A column that another one comes from, or is swayed by."""

    dataset: Name
    column: str | None
    type: EdgeType
    subtype: str | None
    is_guessed: bool


class Column(Struct, frozen=True, rename="camel"):
    """A column with its origins."""

    name: str
    type: str | None
    description: str | None
    sources: tuple[Source, ...]


class Version(Struct, frozen=True, rename="camel"):
    """One completed write, or what a DatasetEvent declared."""

    version: str | None
    at: datetime | None
    run_uuid: str | None
    job: Name | None
    row_count: int | None
    lifecycle: str | None
    has_new_schema: bool


class Point(Struct, frozen=True, rename="camel"):
    """A figure at a time."""

    at: datetime
    value: float
    run_uuid: str | None


class Series(Struct, frozen=True):
    """How one figure went, the oldest first."""

    name: str
    points: tuple[Point, ...]


class DatasetView(Struct, frozen=True, rename="camel"):
    """All that the page of a dataset shows."""

    dataset: Name
    names: tuple[Name, ...]
    is_deleted: bool
    at: datetime | None
    columns: tuple[Column, ...]
    # What sways every column: filters, join keys.
    whole: tuple[Source, ...]
    facets: Facets
    described: str | None
    versions: tuple[Version, ...]
    version_total: int
    producers: tuple[Touch, ...]
    consumers: tuple[Touch, ...]
    series: tuple[Series, ...]


class _Field(Struct):
    name: str
    type: str | None = None
    description: str | None = None


class _Schema(Struct):
    fields: list[_Field] | None = None


_decode_schema = msgspec.json.Decoder(_Schema, strict=False).decode


def dataset_view(index: Browser, name: Name) -> DatasetView:
    """The page of a dataset, by any of its names."""
    names = [Name(*one) for one in index.names_of(name.parts)]
    rows = [row for one in names if (row := index.dataset(one.parts)) is not None]
    if not rows:
        known, _ = index.dataset_page("", 1000)
        raise UnknownNameError.of("dataset", name.name, [row["name"] for row in known])
    facets, described = _facets(index, names)
    edges = [edge for one in names for edge in index.last_edges(one.parts, _MOST_EDGES)]
    written = [index.versions_of(one.parts, _MOST_VERSIONS) for one in names]
    versions = sorted((row for found, _ in written for row in found), key=_when, reverse=True)[:_MOST_VERSIONS]
    return DatasetView(
        dataset=name,
        names=tuple(names[1:]),
        is_deleted=all(row["is_deleted"] for row in rows),
        at=max((at for row in rows if (at := moment(row["last_event_at"]))), default=None),
        columns=_columns(facets, edges),
        whole=tuple(_source(edge) for edge in edges if edge["column"] is None),
        facets=facets,
        described=described,
        versions=_versions(versions),
        version_total=sum(total for _, total in written),
        producers=_touching(index, names, "OUTPUT"),
        consumers=_touching(index, names, "INPUT"),
        series=_series(index, versions),
    )


def _facets(index: Browser, names: Iterable[Name]) -> tuple[Facets, str | None]:
    """The facets of the version that was described last, by the first name that has any."""
    for name in names:
        versions = index.described_versions(*name.parts)
        if versions:
            return raw(index.facets("dataset", *name.parts, versions[0])), versions[0]
    return {}, None


def _touching(index: Browser, names: Iterable[Name], direction: str) -> tuple[Touch, ...]:
    return touches((row for name in names for row in index.jobs_touching(name.parts, direction)), "job")


def _columns(facets: Facets, edges: Iterable[Row]) -> tuple[Column, ...]:
    sources: defaultdict[str, list[Source]] = defaultdict(list)
    for edge in edges:
        if edge["column"] is not None:
            sources[edge["column"]].append(_source(edge))
    fields = {field.name: field for field in _schema(facets)}
    known = [*fields.values(), *(_Field(name) for name in sources if name not in fields)]
    return tuple(Column(one.name, one.type, one.description, tuple(sources[one.name])) for one in known)


def _schema(facets: Facets) -> list[_Field]:
    try:
        return _decode_schema(facets["schema"]).fields or [] if "schema" in facets else []
    except msgspec.DecodeError:
        return []


def _source(edge: Row) -> Source:
    return Source(
        dataset=Name(edge["source_namespace"], edge["source_name"]),
        column=edge["source_column"],
        type="INDIRECT" if edge["type"] == "INDIRECT" else "DIRECT",
        subtype=edge["subtype"],
        is_guessed=edge["description"] in {"opaque", "inferred"},
    )


def _when(row: Row) -> tuple[int, int]:
    return row["created_at"] or 0, row["last_seq"]


def _versions(rows: list[Row]) -> tuple[Version, ...]:
    before = [*(row["schema_id"] for row in rows), None][1:]
    return tuple(
        Version(
            version=row["version"],
            at=moment(row["created_at"]),
            run_uuid=row["run_uuid"],
            job=None if row["job_name"] is None else Name(row["job_namespace"] or "", row["job_name"]),
            row_count=row["row_count"],
            lifecycle=row["lifecycle_state"],
            has_new_schema=None not in (row["schema_id"], older) and row["schema_id"] != older,
        )
        for row, older in zip(rows, before, strict=True)
    )


def _series(index: Browser, rows: Iterable[Row]) -> tuple[Series, ...]:
    """The figures that runs gave to what they wrote, one line each that has at least two points."""
    found: defaultdict[str, list[Point]] = defaultdict(list)
    for row in sorted(rows, key=_when):
        at = moment(row["created_at"])
        if at is not None and row["run_uuid"] is not None:
            for name, value in _figures(index, row).items():
                found[name].append(Point(at, value, row["run_uuid"]))
    return tuple(Series(name, tuple(points)) for name, points in found.items() if len(points) > 1)


def _figures(index: Browser, row: Row) -> dict[str, float]:
    figures: dict[str, float] = {} if row["row_count"] is None else {"rows": row["row_count"]}
    key = (row["dataset_namespace"], row["dataset_name"], row["version"])
    facets = index.facets("output", row["run_uuid"], *key)
    for name in _MEASURED:
        if name in facets:
            figures |= _numbers(facets[name])
    return figures


def _numbers(facet: bytes) -> dict[str, float]:
    """Rows, bytes, and the share of nulls of each column."""
    try:
        said = msgspec.json.decode(facet, type=dict[str, msgspec.Raw])
        figures = {
            word: float(msgspec.json.decode(said[key], type=float, strict=False))
            for key, word in (("rowCount", "rows"), ("size", "bytes"), ("bytes", "bytes"), ("fileCount", "files"))
            if key in said
        }
        columns = msgspec.json.decode(said.get("columnMetrics", msgspec.Raw(b"{}")), type=dict[str, _Metrics])
    except msgspec.DecodeError:
        return {}
    nulls = {
        f"nulls in {name}": float(one.null_count)
        for name, one in list(columns.items())[:_MOST_NAMES]
        if one.null_count is not None
    }
    return figures | nulls


class _Metrics(Struct, rename="camel"):
    null_count: float | None = None
