"""The documents of Marquez's API: every field under its own name and in its own place."""

from __future__ import annotations

from datetime import datetime
from hashlib import md5
from typing import Literal

from msgspec import Raw, Struct
from msgspec.structs import asdict

from clew.api.marquez.column_shapes import column_lineage
from clew.index.keys import entity
from clew.query.catalog import model


class NamespaceShape(Struct, frozen=True, rename="camel"):
    """A namespace."""

    name: str
    created_at: datetime | None
    updated_at: datetime | None
    owner_name: str
    description: str | None
    is_hidden: bool


class SourceShape(Struct, frozen=True, rename="camel"):
    """A source."""

    type: str
    name: str
    created_at: datetime | None
    updated_at: datetime | None
    connection_url: str
    description: str | None


class Identity(Struct, frozen=True):
    """A job or a dataset."""

    namespace: str
    name: str


class VersionIdentity(Struct, frozen=True):
    """A version of a job or a dataset."""

    namespace: str
    name: str
    version: str | None


class RunDatasetShape(Struct, frozen=True, rename="camel"):
    """A version of a dataset as a run read or wrote it."""

    dataset_version_id: VersionIdentity
    facets: dict[str, Raw]


class RunShape(Struct, frozen=True, rename="camel"):
    """A run."""

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
    job_version: VersionIdentity | None
    input_dataset_versions: list[RunDatasetShape]
    output_dataset_versions: list[RunDatasetShape]
    facets: dict[str, Raw]


class JobHead(Struct, frozen=True, rename="camel"):
    """What is said of a job wherever it stands."""

    id: Identity
    type: Literal["BATCH", "STREAM"]
    name: str
    simple_name: str
    parent_job_name: str | None
    parent_job_uuid: str | None
    created_at: datetime | None
    updated_at: datetime | None
    namespace: str
    inputs: list[Identity]
    outputs: list[Identity]
    location: str | None
    description: str | None
    latest_run: RunShape | None


class JobShape(JobHead, frozen=True, rename="camel"):
    """A job."""

    latest_runs: list[RunShape] | None
    facets: dict[str, Raw]
    current_version: str | None
    labels: tuple[str, ...]
    tags: tuple[str, ...]


class JobVersionShape(Struct, frozen=True, rename="camel"):
    """A version of a job."""

    id: VersionIdentity
    name: str
    created_at: datetime | None
    version: str
    namespace: str
    location: str | None
    inputs: list[Identity]
    outputs: list[Identity]
    latest_run: RunShape | None


class DatasetHead(Struct, frozen=True, rename="camel"):
    """What is said of a dataset wherever it stands."""

    id: Identity
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


class DatasetShape(DatasetHead, frozen=True, rename="camel"):
    """A dataset."""

    current_version: str | None
    column_lineage: Raw | None
    facets: dict[str, Raw]
    deleted: bool


class DatasetVersionShape(Struct, frozen=True, rename="camel"):
    """A version of a dataset."""

    id: Identity
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
    created_by_run: RunShape | None
    facets: dict[str, Raw]


def namespace_shape(namespace: model.Namespace) -> NamespaceShape:
    """A namespace as Marquez writes it."""
    return NamespaceShape(
        namespace.name,
        namespace.created_at,
        namespace.updated_at,
        namespace.owner,
        namespace.description,
        namespace.is_hidden,
    )


def source_shape(source: model.Source) -> SourceShape:
    """A source as Marquez writes it."""
    return SourceShape(source.type, source.name, source.created_at, source.updated_at, source.url, source.description)


def run_shape(run: model.Run) -> RunShape:
    """A run as Marquez writes it."""
    duration = None
    if run.started_at is not None and run.ended_at is not None:
        duration = int((run.ended_at - run.started_at).total_seconds() * 1000)
    return RunShape(
        run.id,
        run.created_at,
        run.updated_at,
        run.nominal_start_at,
        run.nominal_end_at,
        run.state,
        run.started_at,
        run.ended_at,
        duration,
        _args(run),
        None if run.job_version is None or run.job is None else VersionIdentity(*run.job, run.job_version),
        [_run_dataset(one) for one in run.inputs],
        [_run_dataset(one) for one in run.outputs],
        run.facets,
    )


def job_type(job: model.Job) -> Literal["BATCH", "STREAM"]:
    """Whether a job ends by itself."""
    return "STREAM" if job.processing_type == "STREAMING" else "BATCH"


def job_head(job: model.Job, latest_run: RunShape | None) -> JobHead:
    """What Marquez says of a job everywhere."""
    return JobHead(
        Identity(job.namespace, job.name),
        job_type(job),
        job.name,
        _simple_name(job),
        None if job.parent is None else job.parent[1],
        None if job.parent is None else _job_uuid(*job.parent),
        job.created_at,
        job.updated_at,
        job.namespace,
        _identities(job.inputs),
        _identities(job.outputs),
        job.location,
        job.description,
        latest_run,
    )


def job_shape(job: model.Job) -> JobShape:
    """A job as Marquez writes it."""
    latest = [run_shape(run) for run in job.latest_runs]
    by_id = {run.id: run for run in latest}
    last = job.latest_run
    head = job_head(job, None if last is None else by_id.get(last.id) or run_shape(last))
    return JobShape(
        **asdict(head),
        latest_runs=latest or None,
        facets=job.facets,
        current_version=job.current_version,
        labels=job.labels,
        tags=job.tags,
    )


def job_version_shape(version: model.JobVersion) -> JobVersionShape:
    """A version of a job as Marquez writes it."""
    return JobVersionShape(
        VersionIdentity(version.namespace, version.name, version.version),
        version.name,
        version.created_at,
        version.version,
        version.namespace,
        version.location,
        _identities(version.inputs),
        _identities(version.outputs),
        None if version.latest_run is None else run_shape(version.latest_run),
    )


def dataset_head(dataset: model.Dataset) -> DatasetHead:
    """What Marquez says of a dataset everywhere."""
    return DatasetHead(
        Identity(dataset.namespace, dataset.name),
        "DB_TABLE",
        dataset.name,
        dataset.physical_name,
        dataset.created_at,
        dataset.updated_at,
        dataset.namespace,
        dataset.source,
        dataset.fields,
        dataset.tags,
        dataset.modified_at,
        dataset.lifecycle_state,
        dataset.description,
    )


def dataset_shape(dataset: model.Dataset) -> DatasetShape:
    """A dataset as Marquez writes it."""
    return DatasetShape(
        **asdict(dataset_head(dataset)),
        current_version=dataset.current_version,
        column_lineage=column_lineage(dataset.columns),
        facets=dataset.facets,
        deleted=dataset.is_deleted,
    )


def dataset_version_shape(version: model.DatasetVersion) -> DatasetVersionShape:
    """A version of a dataset as Marquez writes it."""
    return DatasetVersionShape(
        Identity(version.namespace, version.name),
        "DB_TABLE",
        version.name,
        version.physical_name,
        version.created_at,
        version.version,
        version.namespace,
        version.source,
        version.fields,
        version.tags,
        version.lifecycle_state,
        version.description,
        version.schema_version,
        None if version.created_by is None else run_shape(version.created_by),
        version.facets,
    )


def _identities(names: tuple[model.Name, ...]) -> list[Identity]:
    """Jobs or datasets by their names."""
    return [Identity(*name) for name in names]


def _simple_name(job: model.Job) -> str:
    """The name without that of the parent, where it begins with it."""
    return job.name if job.parent is None else job.name.removeprefix(f"{job.parent[1]}.")


def _job_uuid(namespace: str, name: str) -> str:
    """A job as one id."""
    # A name, not a secret.
    text = md5(entity("job", namespace, name).encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()
    return f"{text[:8]}-{text[8:12]}-3{text[13:16]}-8{text[17:20]}-{text[20:]}"


def _run_dataset(one: model.RunDataset) -> RunDatasetShape:
    return RunDatasetShape(VersionIdentity(one.namespace, one.name, one.version), one.facets)


def _args(run: model.Run) -> dict[str, str]:
    parent = run.parent
    found = {
        "nominal_start_time": _text(run.nominal_start_at),
        "nominal_end_time": _text(run.nominal_end_at),
        "run_id": parent.run_id,
        "name": parent.name,
        "namespace": parent.namespace,
    }
    return {name: value for name, value in found.items() if value is not None}


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
