"""Entities as documents: what is known of each, facets as the bytes they came as."""

from __future__ import annotations

from datetime import datetime

from msgspec import Raw, Struct

from clew.query.model import State

Name = tuple[str, str]
Facets = dict[str, Raw]


class RunDataset(Struct, frozen=True):
    """A dataset as a run read or wrote it, in which version; None if no one is known to have written it."""

    namespace: str
    name: str
    version: str | None
    facets: Facets


class Parent(Struct, frozen=True):
    """The run that a run is part of, and that run's job."""

    run_id: str | None
    namespace: str | None
    name: str | None


class Run(Struct, frozen=True):
    """A run."""

    id: str
    job: Name | None
    state: State
    created_at: datetime | None
    updated_at: datetime | None
    nominal_start_at: datetime | None
    nominal_end_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    parent: Parent
    job_version: str | None
    inputs: tuple[RunDataset, ...]
    outputs: tuple[RunDataset, ...]
    facets: Facets


class Job(Struct, frozen=True):
    """A job, with its last runs, the last started first."""

    namespace: str
    name: str
    parent: Name | None
    processing_type: str | None
    labels: tuple[str, ...]
    created_at: datetime | None
    updated_at: datetime | None
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    location: str | None
    description: str | None
    latest_run: Run | None
    latest_runs: tuple[Run, ...]
    current_version: str | None
    tags: tuple[str, ...]
    facets: Facets


class JobVersion(Struct, frozen=True):
    """A version of a job: what it reads and writes, and where its code is."""

    namespace: str
    name: str
    version: str
    created_at: datetime | None
    location: str | None
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    latest_run: Run | None


class SchemaField(Struct, frozen=True):
    """A column as a schema describes it, with its tags."""

    name: str
    type: str | None
    tags: tuple[str, ...]
    description: str | None


class Transformation(Struct, frozen=True):
    """How a column came from another."""

    type: str
    subtype: str | None
    description: str | None
    masking: bool | None


class SourceColumn(Struct, frozen=True):
    """A column that another came from."""

    namespace: str
    dataset: str
    field: str
    transformations: tuple[Transformation, ...]


class ColumnSources(Struct, frozen=True, cache_hash=True):
    """A column, and those that it came from."""

    name: str
    sources: tuple[SourceColumn, ...]


class Dataset(Struct, frozen=True):
    """A dataset as it is now; `physical_name` is the name of its node, by whichever name it was asked for."""

    namespace: str
    name: str
    physical_name: str
    created_at: datetime | None
    updated_at: datetime | None
    modified_at: datetime | None
    source: str
    fields: tuple[SchemaField, ...]
    tags: tuple[str, ...]
    lifecycle_state: str | None
    description: str | None
    current_version: str | None
    columns: tuple[ColumnSources, ...]
    facets: Facets
    is_deleted: bool


class DatasetVersion(Struct, frozen=True):
    """A dataset as a run left it, or as a DatasetEvent declared it."""

    namespace: str
    name: str
    physical_name: str
    created_at: datetime | None
    version: str
    schema_version: str | None
    source: str
    fields: tuple[SchemaField, ...]
    tags: tuple[str, ...]
    lifecycle_state: str | None
    description: str | None
    created_by: Run | None
    facets: Facets


class Namespace(Struct, frozen=True):
    """A namespace."""

    name: str
    created_at: datetime | None
    updated_at: datetime | None
    owner: str
    description: str | None
    is_hidden: bool


class Source(Struct, frozen=True):
    """Where datasets are kept, as their `dataSource` facets say."""

    name: str
    type: str
    created_at: datetime | None
    updated_at: datetime | None
    url: str
    description: str | None


class Tag(Struct, frozen=True):
    """A tag, and what it means."""

    name: str
    description: str | None
