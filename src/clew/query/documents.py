"""Datasets, jobs and runs as documents: all that is known of one, and short ones for lists."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from clew.events.labels import tags_of
from clew.index import entities
from clew.index.reader import IndexReader, Row
from clew.query.graph.nodes import Node
from clew.query.model import Dataset, State
from clew.query.moments import moment
from clew.query.run_walk import require_run

# What a document names of jobs and datasets; the rest is a matter of lineage.
_MOST_NEIGHBOURS = 100


class Tag(Struct, frozen=True):
    """A tag; `field` is the column that it is on, if it is not on the whole."""

    key: str
    value: str | None
    field: str | None


class ColumnInfo(Struct, frozen=True):
    """A column as a schema describes it."""

    name: str
    type: str | None = None
    description: str | None = None


class JobName(Struct, frozen=True, order=True):
    """A job by its OpenLineage identity."""

    namespace: str
    name: str


class DatasetUse(Struct, frozen=True, rename="camel"):
    """A dataset as a run read or wrote it; implied, if only lineage names it."""

    namespace: str
    name: str
    version: str | None
    row_count: int | None
    is_implied: bool


class RunEntry(Struct, frozen=True, rename="camel"):
    """A run in a list."""

    id: str
    state: State
    job: JobName | None
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: float | None


class RunDocument(Struct, frozen=True, rename="camel"):
    """A run; one that is only known because others name it is a placeholder."""

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
    inputs: tuple[DatasetUse, ...]
    outputs: tuple[DatasetUse, ...]
    is_placeholder: bool
    facets: dict[str, Raw]


class DatasetEntry(Struct, frozen=True, rename="camel"):
    """A dataset in a list."""

    id: str
    namespace: str
    name: str
    last_event_at: datetime | None
    is_deleted: bool


class DatasetDocument(Struct, frozen=True, rename="camel"):
    """A dataset, by whichever of its names, after all events so far."""

    id: str
    namespace: str
    name: str
    other_names: tuple[Dataset, ...]
    renamed_from: Dataset | None
    renamed_to: Dataset | None
    lifecycle_state: str | None
    is_deleted: bool
    last_event_at: datetime | None
    written_at: datetime | None
    version: str | None
    description: str | None
    columns: tuple[ColumnInfo, ...]
    tags: tuple[Tag, ...]
    written_by: tuple[JobName, ...]
    read_by: tuple[JobName, ...]
    facets: dict[str, Raw]


class JobEntry(Struct, frozen=True, rename="camel"):
    """A job in a list."""

    id: str
    namespace: str
    name: str
    type: str | None
    last_event_at: datetime | None
    latest_run_id: str | None


class JobDocument(Struct, frozen=True, rename="camel"):
    """A job after all events so far."""

    id: str
    namespace: str
    name: str
    type: str | None
    integration: str | None
    processing_type: str | None
    description: str | None
    parent: JobName | None
    last_event_at: datetime | None
    latest_run: RunEntry | None
    inputs: tuple[Dataset, ...]
    outputs: tuple[Dataset, ...]
    tags: tuple[Tag, ...]
    is_placeholder: bool
    facets: dict[str, Raw]


class _Schema(Struct):
    fields: tuple[ColumnInfo, ...] | None = None


class _Documentation(Struct):
    description: str | None = None


_decode_schema = msgspec.json.Decoder(_Schema).decode
_decode_columns = msgspec.json.Decoder(tuple[ColumnInfo, ...]).decode
_decode_documentation = msgspec.json.Decoder(_Documentation).decode


def run_document(index: IndexReader, run_uuid: str) -> RunDocument:
    """All that is known of a run."""
    row = require_run(index, run_uuid)
    io = entities.run_io_rows(index, run_uuid)
    return RunDocument(
        id=run_uuid,
        state=row["state"],
        job=_job_of(row),
        job_version=row["job_version"],
        started_at=moment(row["started_at"]),
        ended_at=moment(row["ended_at"]),
        duration_ms=duration_ms(row),
        nominal_start_at=moment(row["nominal_start_at"]),
        nominal_end_at=moment(row["nominal_end_at"]),
        parent_run_id=row["parent_run_uuid"],
        root_run_id=row["root_run_uuid"],
        error=row["error_message"],
        session_id=row["session_id"],
        inputs=_uses(io, "INPUT"),
        outputs=_uses(io, "OUTPUT"),
        is_placeholder=bool(row["is_placeholder"]),
        facets=_raw(index.facets("run", run_uuid)),
    )


def run_entry(row: Row) -> RunEntry:
    """A run in a list."""
    return RunEntry(
        id=row["run_uuid"],
        state=row["state"],
        job=_job_of(row),
        started_at=moment(row["started_at"]),
        ended_at=moment(row["ended_at"]),
        duration_ms=duration_ms(row),
    )


def dataset_document(index: IndexReader, namespace: str, name: str) -> DatasetDocument:
    """All that is known of a dataset that is known by this name."""
    node = entities.node_row(index, namespace, name)
    if node is not None and entities.dataset_row(index, namespace, name) is None:
        namespace, name = node["node_namespace"], node["node_name"]
    row = entities.dataset_row(index, namespace, name)
    versions = index.described_versions(namespace, name)
    facets = index.facets("dataset", namespace, name, versions[0]) if versions else {}
    return DatasetDocument(
        id=Node("dataset", namespace, name).id,
        namespace=namespace,
        name=name,
        other_names=tuple(Dataset(*other) for other in entities.other_names(index, namespace, name)),
        renamed_from=None if row is None else _named(row["renamed_from_namespace"], row["renamed_from_name"]),
        renamed_to=None if row is None else _named(row["to_namespace"], row["to_name"]),
        lifecycle_state=None if row is None else row["lifecycle_state"],
        is_deleted=row is not None and bool(row["is_deleted"]),
        last_event_at=None if row is None else moment(row["last_event_at"]),
        written_at=None if row is None else moment(row["written_at"]),
        version=versions[0] if versions else None,
        description=described(facets),
        columns=columns_in(facets.get("schema")),
        tags=tags_in(facets),
        written_by=_jobs(entities.jobs_of(index, namespace, name, "OUTPUT", _MOST_NEIGHBOURS)),
        read_by=_jobs(entities.jobs_of(index, namespace, name, "INPUT", _MOST_NEIGHBOURS)),
        facets=_raw(facets),
    )


def dataset_entry(row: Row) -> DatasetEntry:
    """A dataset in a list."""
    namespace, name = row["namespace"], row["name"]
    is_deleted = bool(row["is_deleted"])
    return DatasetEntry(Node("dataset", namespace, name).id, namespace, name, moment(row["last_event_at"]), is_deleted)


def job_document(index: IndexReader, namespace: str, name: str) -> JobDocument:
    """All that is known of a job that is known by this name."""
    row = entities.job_row(index, namespace, name)
    latest = None if row is None or row["latest_run_uuid"] is None else entities.run_row(index, row["latest_run_uuid"])
    facets = index.facets("job", namespace, name)
    parent = None if latest is None else _named(latest["parent_job_namespace"], latest["parent_job_name"])
    return JobDocument(
        id=Node("job", namespace, name).id,
        namespace=namespace,
        name=name,
        type=None if row is None else row["job_type"],
        integration=None if row is None else row["integration"],
        processing_type=None if row is None else row["processing_type"],
        description=None if row is None else row["description"],
        parent=None if parent is None else JobName(parent.namespace, parent.name),
        last_event_at=None if row is None else moment(row["last_event_at"]),
        latest_run=None if latest is None else run_entry(latest),
        inputs=_datasets(entities.datasets_of(index, namespace, name, "INPUT", _MOST_NEIGHBOURS)),
        outputs=_datasets(entities.datasets_of(index, namespace, name, "OUTPUT", _MOST_NEIGHBOURS)),
        tags=tags_in(facets),
        is_placeholder=row is None or bool(row["is_placeholder"]),
        facets=_raw(facets),
    )


def job_entry(row: Row) -> JobEntry:
    """A job in a list."""
    namespace, name = row["namespace"], row["name"]
    return JobEntry(
        Node("job", namespace, name).id,
        namespace,
        name,
        row["job_type"],
        moment(row["last_event_at"]),
        row["latest_run_uuid"],
    )


def columns_in(facet: bytes | None) -> tuple[ColumnInfo, ...]:
    """The columns of a schema facet; none of one that cannot be read."""
    try:
        return () if facet is None else _decode_schema(facet).fields or ()
    except msgspec.DecodeError:
        return ()


def columns_of_schema(index: IndexReader, schema_id: str | None) -> tuple[ColumnInfo, ...]:
    """The columns of a schema of the index; none of one that cannot be read."""
    text = entities.schema_text(index, schema_id)
    try:
        return () if text is None else _decode_columns(text)
    except msgspec.DecodeError:
        return ()


def described(facets: dict[str, bytes]) -> str | None:
    """What the documentation facet says."""
    try:
        return _decode_documentation(facets.get("documentation", b"{}")).description
    except msgspec.DecodeError:
        return None


def tags_in(facets: dict[str, bytes]) -> tuple[Tag, ...]:
    """What the tags facet says."""
    facet = facets.get("tags")
    return () if facet is None else tuple(Tag(tag.key, tag.value, tag.field) for tag in tags_of(facet))


def duration_ms(run: Row) -> float | None:
    """How long a run took, if its start and its end are known."""
    began, ended = run["started_at"], run["ended_at"]
    return None if began is None or ended is None else (ended - began) / 1000


def _job_of(run: Row) -> JobName | None:
    return None if run["job_name"] is None else JobName(run["job_namespace"] or "", run["job_name"])


def _named(namespace: str | None, name: str | None) -> Dataset | None:
    return None if namespace is None or name is None else Dataset(namespace, name)


def _uses(rows: list[Row], direction: Literal["INPUT", "OUTPUT"]) -> tuple[DatasetUse, ...]:
    return tuple(
        DatasetUse(
            row["dataset_namespace"],
            row["dataset_name"],
            row["dataset_version"] or None,
            row["row_count"],
            bool(row["is_implied"]),
        )
        for row in rows
        if row["direction"] == direction
    )


def _jobs(rows: list[Row]) -> tuple[JobName, ...]:
    return tuple(JobName(*row) for row in rows)


def _datasets(rows: list[Row]) -> tuple[Dataset, ...]:
    return tuple(Dataset(*row) for row in rows)


def _raw(facets: dict[str, bytes]) -> dict[str, Raw]:
    return {name: Raw(body) for name, body in facets.items()}
