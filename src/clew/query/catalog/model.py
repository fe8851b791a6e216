"""Models of catalog entities, with facets as raw JSON."""

from __future__ import annotations

from datetime import datetime

from msgspec import Raw, Struct

from clew.query.model import State

Name = tuple[str, str]
Facets = dict[str, Raw]


class RunDataset(Struct, frozen=True):
    """A dataset that a run read or wrote; `version` is None if no write of it is recorded."""

    namespace: str
    name: str
    version: str | None
    facets: Facets


class ParentRun(Struct, frozen=True):
    """Parent run of a run, and its job."""

    run_id: str | None
    namespace: str | None
    name: str | None


class CatalogRun(Struct, frozen=True):
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
    parent: ParentRun
    job_version: str | None
    inputs: tuple[RunDataset, ...]
    outputs: tuple[RunDataset, ...]
    facets: Facets


class CatalogJob(Struct, frozen=True):
    """A job with its latest runs, latest start first."""

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
    latest_run: CatalogRun | None
    latest_runs: tuple[CatalogRun, ...]
    current_version: str | None
    tags: tuple[str, ...]
    facets: Facets


class JobVersion(Struct, frozen=True):
    """A version of a job: inputs, outputs and source code location."""

    namespace: str
    name: str
    version: str
    created_at: datetime | None
    location: str | None
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    latest_run: CatalogRun | None


class SchemaField(Struct, frozen=True):
    """A schema field with its tags."""

    name: str
    type: str | None
    tags: tuple[str, ...]
    description: str | None


class ColumnTransformation(Struct, frozen=True):
    """Transformation of a column edge."""

    type: str
    subtype: str | None
    description: str | None
    masking: bool | None


class SourceColumn(Struct, frozen=True):
    """A source of a column."""

    namespace: str
    dataset: str
    field: str
    transformations: tuple[ColumnTransformation, ...]


class ColumnSources(Struct, frozen=True, cache_hash=True):
    """A column and its sources."""

    name: str
    sources: tuple[SourceColumn, ...]


class CatalogDataset(Struct, frozen=True):
    """Current state of a dataset; `physical_name` is its canonical name, `name` the requested one."""

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
    """A dataset as a run wrote it or a DatasetEvent declared it."""

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
    created_by: CatalogRun | None
    facets: Facets


class Namespace(Struct, frozen=True):
    """A namespace."""

    name: str
    created_at: datetime | None
    updated_at: datetime | None
    owner: str
    description: str | None
    is_hidden: bool


class DataSource(Struct, frozen=True):
    """A data source, from `dataSource` facets or annotations."""

    name: str
    type: str
    created_at: datetime | None
    updated_at: datetime | None
    url: str
    description: str | None


class TagDefinition(Struct, frozen=True):
    """A tag and its description."""

    name: str
    description: str | None
