"""Response schemas."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict

from clew.events.facets import Tag
from clew.index.queries.entities import Name
from clew.query.entities import model
from clew.query.model import Transformation

Columns = tuple[model.ColumnSources, ...]

# Column lineage rarely changes between runs. Wide tables are not cached, to save memory.
_MAX_CACHED = 4096
_MAX_CACHED_COLUMNS = 100


class InputFieldSchema(Struct, frozen=True, rename="camel"):
    """Source column; `transformations` is an extension of clew."""

    namespace: str
    dataset: str
    field: str
    transformation_description: str | None
    transformation_type: str | None
    transformations: tuple[Transformation, ...]


class ColumnLineageSchema(Struct, frozen=True, rename="camel"):
    """Column with its source columns."""

    name: str
    input_fields: list[InputFieldSchema]
    transformation_description: str | None
    transformation_type: str | None


def format_column_lineage(columns: Columns) -> Raw | None:
    """Encode columns with their source columns; None if there are none."""
    return _encode_cached(columns) if len(columns) <= _MAX_CACHED_COLUMNS else _encode(columns)


def marquez_transformation_type(transformation: Transformation) -> str:
    """Return Marquez's transformationType."""
    return "MASKED" if transformation.is_masking else transformation.subtype or transformation.type


def _encode(columns: Columns) -> Raw | None:
    """Encode columns; sources and targets that are whole datasets are left out."""
    schemas = [
        ColumnLineageSchema(column.name, fields, fields[0].transformation_description, fields[0].transformation_type)
        for column in columns
        if column.name is not None and (fields := list(_input_fields(column)))
    ]
    return Raw(msgspec.json.encode(schemas)) if schemas else None


_encode_cached = lru_cache(_MAX_CACHED)(_encode)


def _input_fields(column: model.ColumnSources) -> Iterator[InputFieldSchema]:
    """Convert source columns; Marquez's fields describe the first transformation."""
    for source in column.sources:
        if source.field is not None:
            first = source.transformations[0] if source.transformations else None
            yield InputFieldSchema(
                source.namespace,
                source.dataset,
                source.field,
                None if first is None else first.description,
                None if first is None else marquez_transformation_type(first),
                source.transformations,
            )


class EntityId(Struct, frozen=True):
    """Id of a job or dataset."""

    namespace: str
    name: str


class VersionId(Struct, frozen=True):
    """Id of a job version or dataset version."""

    namespace: str
    name: str
    version: str | None


class RunDatasetSchema(Struct, frozen=True, rename="camel"):
    """Dataset version as input or output of a run."""

    dataset_version_id: VersionId
    facets: dict[str, Raw]


class RunSchema(Struct, frozen=True, rename="camel"):
    """Run."""

    id: str
    created_at: datetime | None
    updated_at: datetime | None
    nominal_start_time: datetime | None
    nominal_end_time: datetime | None
    state: str
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: int | None
    args: dict[str, str]
    job_version: VersionId | None
    input_dataset_versions: list[RunDatasetSchema]
    output_dataset_versions: list[RunDatasetSchema]
    facets: dict[str, Raw]


class JobBase(Struct, frozen=True, rename="camel"):
    """Common fields of a job."""

    id: EntityId
    type: Literal["BATCH", "STREAM"]
    name: str
    simple_name: str
    parent_job_name: str | None
    parent_job_uuid: str | None
    created_at: datetime | None
    updated_at: datetime | None
    namespace: str
    inputs: list[EntityId]
    outputs: list[EntityId]
    location: str | None
    description: str | None
    latest_run: RunSchema | None


class JobSchema(JobBase, frozen=True, rename="camel"):
    """Job."""

    latest_runs: list[RunSchema] | None
    facets: dict[str, Raw]
    current_version: str | None
    labels: tuple[str, ...]
    tags: tuple[str, ...]


class JobVersionSchema(Struct, frozen=True, rename="camel"):
    """Job version."""

    id: VersionId
    name: str
    created_at: datetime | None
    version: str
    namespace: str
    location: str | None
    inputs: list[EntityId]
    outputs: list[EntityId]
    latest_run: RunSchema | None


class DatasetBase(Struct, frozen=True, rename="camel"):
    """Common fields of a dataset."""

    id: EntityId
    type: Literal["DB_TABLE"]
    name: str
    physical_name: str
    created_at: datetime | None
    updated_at: datetime | None
    namespace: str
    source_name: str
    fields: tuple[model.SchemaField, ...]
    tags: tuple[str, ...]
    last_modified_at: datetime | None
    last_lifecycle_state: str | None
    description: str | None


class DatasetSchema(DatasetBase, frozen=True, rename="camel"):
    """Dataset."""

    current_version: str | None
    column_lineage: Raw | None
    facets: dict[str, Raw]
    deleted: bool


class DatasetVersionSchema(Struct, frozen=True, rename="camel"):
    """Dataset version."""

    id: EntityId
    type: Literal["DB_TABLE"]
    name: str
    physical_name: str
    created_at: datetime | None
    version: str
    namespace: str
    source_name: str
    fields: tuple[model.SchemaField, ...]
    tags: tuple[str, ...]
    lifecycle_state: str | None
    description: str | None
    current_schema_version: str | None
    created_by_run: RunSchema | None
    facets: dict[str, Raw]


def format_run(run: model.CatalogRun) -> RunSchema:
    """Convert a run."""
    duration_ms = run.duration_ms
    return RunSchema(
        run.id,
        run.created_at,
        run.updated_at,
        run.nominal_start_at,
        run.nominal_end_at,
        run.state,
        run.started_at,
        run.ended_at,
        None if duration_ms is None else int(duration_ms),
        _args(run),
        None if run.job_version is None or run.job is None else VersionId(*run.job, run.job_version),
        [_run_dataset(dataset) for dataset in run.inputs],
        [_run_dataset(dataset) for dataset in run.outputs],
        run.facets,
    )


def marquez_job_type(job: model.CatalogJob) -> Literal["BATCH", "STREAM"]:
    """Return Marquez's job type."""
    return "STREAM" if job.processing_type == "STREAMING" else "BATCH"


def format_job_base(job: model.CatalogJob, latest_run: RunSchema | None) -> JobBase:
    """Convert the common fields of a job."""
    return JobBase(
        EntityId(job.namespace, job.name),
        marquez_job_type(job),
        job.name,
        _simple_name(job),
        None if job.parent is None else job.parent[1],
        None if job.parent is None else model.key_uuid("job", *job.parent),
        job.created_at,
        job.updated_at,
        job.namespace,
        _entity_ids(job.inputs),
        _entity_ids(job.outputs),
        job.location,
        job.description,
        latest_run,
    )


def format_job(job: model.CatalogJob) -> JobSchema:
    """Convert a job."""
    latest = [format_run(run) for run in job.latest_runs]
    by_id = {run.id: run for run in latest}
    last = job.latest_run
    head = format_job_base(job, None if last is None else by_id.get(last.id) or format_run(last))
    return JobSchema(
        **asdict(head),
        latest_runs=latest or None,
        facets=job.facets,
        current_version=job.current_version,
        labels=tuple(label for label in (job.type, job.integration) if label),
        tags=_tag_names(job.tags),
    )


def format_job_version(version: model.JobVersion) -> JobVersionSchema:
    """Convert a job version."""
    return JobVersionSchema(
        VersionId(version.namespace, version.name, version.version),
        version.name,
        version.created_at,
        version.version,
        version.namespace,
        version.location,
        _entity_ids(version.inputs),
        _entity_ids(version.outputs),
        None if version.latest_run is None else format_run(version.latest_run),
    )


def format_dataset_base(dataset: model.CatalogDataset) -> DatasetBase:
    """Convert the common fields of a dataset."""
    return DatasetBase(
        EntityId(dataset.namespace, dataset.name),
        "DB_TABLE",
        dataset.name,
        dataset.physical_name,
        dataset.created_at,
        dataset.updated_at,
        dataset.namespace,
        dataset.source,
        dataset.fields,
        _tag_names(dataset.tags),
        None if dataset.current_version is None else dataset.current_version.created_at,
        dataset.lifecycle_state,
        dataset.description,
    )


def format_dataset(dataset: model.CatalogDataset) -> DatasetSchema:
    """Convert a dataset."""
    return DatasetSchema(
        **asdict(format_dataset_base(dataset)),
        current_version=None if dataset.current_version is None else dataset.current_version.id,
        column_lineage=format_column_lineage(dataset.columns),
        # As in Marquez, with the input facets.
        facets={**dataset.facets, **dataset.input_facets},
        deleted=dataset.is_deleted,
    )


def format_dataset_version(version: model.DatasetVersion) -> DatasetVersionSchema:
    """Convert a dataset version."""
    return DatasetVersionSchema(
        EntityId(version.namespace, version.name),
        "DB_TABLE",
        version.name,
        version.physical_name,
        version.created_at,
        version.version,
        version.namespace,
        version.source,
        version.fields,
        _tag_names(version.tags),
        version.lifecycle_state,
        version.description,
        version.schema_version,
        None if version.created_by is None else format_run(version.created_by),
        version.facets,
    )


def _tag_names(tags: tuple[Tag, ...]) -> tuple[str, ...]:
    """Return the names of the tags of the entity itself."""
    return tuple(sorted({tag.key for tag in tags if tag.field is None}))


def _entity_ids(names: tuple[Name, ...]) -> list[EntityId]:
    """Convert names to ids."""
    return [EntityId(*name) for name in names]


def _simple_name(job: model.CatalogJob) -> str:
    """Return the name without the parent's prefix."""
    return job.name if job.parent is None else job.name.removeprefix(f"{job.parent[1]}.")


def _run_dataset(dataset: model.RunDataset) -> RunDatasetSchema:
    return RunDatasetSchema(VersionId(dataset.namespace, dataset.name, dataset.version_id), dataset.facets)


def _args(run: model.CatalogRun) -> dict[str, str]:
    parent = run.parent
    args = {
        "nominal_start_time": _format_timestamp(run.nominal_start_at),
        "nominal_end_time": _format_timestamp(run.nominal_end_at),
        "run_id": parent.run_id,
        "name": parent.name,
        "namespace": parent.namespace,
    }
    return {name: value for name, value in args.items() if value is not None}


def _format_timestamp(timestamp: datetime | None) -> str | None:
    return None if timestamp is None else timestamp.isoformat().replace("+00:00", "Z")
