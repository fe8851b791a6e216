"""Current facets of runs, jobs and datasets, and the documents of the API."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Raw, Struct

from clew.data_dir import LakeLocation
from clew.errors import ClewError, MissingExtraError
from clew.events.facets import parse_tags
from clew.index.backends.base import Row
from clew.index.queries import entities
from clew.index.queries.reader import IndexReader
from clew.query.graph.nodes import Node
from clew.query.graph.traversal import require_run
from clew.query.model import DatasetName, State, from_epoch_micros
from clew.query.names import resolve_node_id

if TYPE_CHECKING:
    from clew.lake.facets import EntityKind, FacetState, RunFacets
    from clew.lake.lake import Lake


_BACKFILL_HINT = "Facets of events ingested with --raw-only are added by `clew pipeline backfill`."


class JobFacetSet(Struct, frozen=True):
    """Facets of a job."""

    namespace: str
    name: str
    facets: dict[str, Raw]


class DatasetFacetSet(Struct, frozen=True):
    """Facets of one version of a dataset."""

    namespace: str
    name: str
    version: str | None
    facets: dict[str, Raw]


def find_job_facets(index: IndexReader, namespace: str, name: str) -> JobFacetSet:
    """Load the current facets of a job."""
    facets = _sorted_raw_facets(index.facets("job", namespace, name))
    if not facets:
        resolve_node_id(index, Node("job", namespace, name).id)
        raise ClewError(f"Job {name!r} in namespace {namespace!r} has no facets.", hint=_BACKFILL_HINT)
    return JobFacetSet(namespace, name, facets)


def find_dataset_facets(index: IndexReader, namespace: str, name: str, version: str | None = None) -> DatasetFacetSet:
    """Load the facets of a dataset version, by default the latest version with facets."""
    versions = index.versions_with_facets(namespace, name)
    if not versions:
        resolve_node_id(index, Node("dataset", namespace, name).id)
    if not versions or (version is not None and version not in versions):
        subject = "Dataset" if version is None else f"Version {version!r} of dataset"
        raise ClewError(f"{subject} {name!r} in namespace {namespace!r} has no facets.", hint=_BACKFILL_HINT)
    selected = versions[0] if version is None else version
    return DatasetFacetSet(
        namespace, name, selected, _sorted_raw_facets(index.facets("dataset", namespace, name, selected))
    )


def find_run_facets(index: IndexReader, run_uuid: str, lake: LakeLocation | None) -> dict[str, Raw]:
    """Load the facets of a run; if its events await a backfill, parse them from the lake, up to a limit."""
    indexed = _sorted_raw_facets(index.facets("run", run_uuid))
    if indexed or lake is None:
        return indexed
    from_lake = read_facets_from_lake(run_uuid, lake)
    return {} if from_lake is None else dict(sorted(from_lake.facets.items()))


def lake_has_pending_backfill(lake: LakeLocation) -> bool:
    """Return whether the lake has raw-only events with facets that are not in the index yet."""
    try:
        opened_lake = _open_lake(lake)
    except MissingExtraError:
        return False
    if opened_lake is None:
        return False
    from clew.lake.backfill_state import has_pending_backfill, read_backfilled_ranges

    return has_pending_backfill(opened_lake, read_backfilled_ranges(opened_lake))


def read_facets_from_lake(run_uuid: str, lake: LakeLocation) -> RunFacets | None:
    """Parse the facets of a run from its events in the lake; None without a readable lake."""
    try:
        from clew.lake.facets import load_run_facets

        opened_lake = _open_lake(lake)
    except MissingExtraError:
        return None
    return None if opened_lake is None else load_run_facets(opened_lake, run_uuid, opened_lake.facet_order)


def get_facet_history(
    lake: LakeLocation | None, kind: EntityKind, identity: tuple[str, ...], name: str
) -> list[FacetState]:
    """Return the values of a facet over time, newest first."""
    opened_lake = None if lake is None else _open_lake(lake)
    if opened_lake is None:
        raise ClewError("There is no lake, so there is no facet history.", hint="Run `clew pipeline run` to create it.")
    from clew.lake.facets import read_facet_history

    return read_facet_history(opened_lake, kind, identity, name)


def _open_lake(root: LakeLocation) -> Lake | None:
    # Imported lazily: Arrow and Delta load slowly, and a server can run without them.
    try:
        from clew.lake.lake import Lake
        from clew.lake.manifest import lake_exists
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_module("spark", error.name or "deltalake") from error
    return Lake(root) if lake_exists(root) else None


def _sorted_raw_facets(facets: dict[str, bytes]) -> dict[str, Raw]:
    return {name: Raw(body) for name, body in sorted(facets.items())}


# Neighbouring jobs and datasets listed in the details; lineage queries return all of them.
_MAX_NEIGHBOURS = 100


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
    """An input or output of a run; implied if only a lineage facet mentions it."""

    namespace: str
    name: str
    version: str | None
    row_count: int | None
    is_implied: bool


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


class DatasetSummary(Struct, frozen=True, rename="camel"):
    """A dataset in a list."""

    id: str
    namespace: str
    name: str
    last_event_at: datetime | None
    is_deleted: bool


class DatasetDetails(Struct, frozen=True, rename="camel"):
    """Details of a dataset."""

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


class _Schema(Struct):
    fields: tuple[ColumnInfo, ...] | None = None


class _Documentation(Struct):
    description: str | None = None


_decode_schema = msgspec.json.Decoder(_Schema).decode
_decode_columns = msgspec.json.Decoder(tuple[ColumnInfo, ...]).decode
_decode_documentation = msgspec.json.Decoder(_Documentation).decode


def describe_run(index: IndexReader, run_uuid: str) -> RunDetails:
    """Load the details of a run."""
    row = require_run(index, run_uuid)
    io = entities.list_run_io(index, run_uuid)
    return RunDetails(
        id=run_uuid,
        state=row["state"],
        job=_job_name(row),
        job_version=row["job_version"],
        started_at=from_epoch_micros(row["started_at"]),
        ended_at=from_epoch_micros(row["ended_at"]),
        duration_ms=run_duration_ms(row),
        nominal_start_at=from_epoch_micros(row["nominal_start_at"]),
        nominal_end_at=from_epoch_micros(row["nominal_end_at"]),
        parent_run_id=row["parent_run_uuid"],
        root_run_id=row["root_run_uuid"],
        error=row["error_message"],
        session_id=row["session_id"],
        inputs=_run_ios(io, "INPUT"),
        outputs=_run_ios(io, "OUTPUT"),
        is_placeholder=bool(row["is_placeholder"]),
        facets=_raw_facets(index.facets("run", run_uuid)),
    )


def to_run_summary(row: Row) -> RunSummary:
    """Convert a run row."""
    return RunSummary(
        id=row["run_uuid"],
        state=row["state"],
        job=_job_name(row),
        started_at=from_epoch_micros(row["started_at"]),
        ended_at=from_epoch_micros(row["ended_at"]),
        duration_ms=run_duration_ms(row),
    )


def describe_dataset(index: IndexReader, namespace: str, name: str) -> DatasetDetails:
    """Load the details of a dataset by its name or an alias."""
    node = entities.find_canonical_name(index, namespace, name)
    if node is not None and entities.find_dataset(index, namespace, name) is None:
        namespace, name = node["canonical_namespace"], node["canonical_name"]
    row = entities.find_dataset(index, namespace, name)
    versions = index.versions_with_facets(namespace, name)
    facets = index.facets("dataset", namespace, name, versions[0]) if versions else {}
    return DatasetDetails(
        id=Node("dataset", namespace, name).id,
        namespace=namespace,
        name=name,
        aliases=tuple(DatasetName(*other) for other in entities.list_aliases(index, namespace, name)),
        renamed_from=None if row is None else _dataset_name(row["renamed_from_namespace"], row["renamed_from_name"]),
        renamed_to=None if row is None else _dataset_name(row["to_namespace"], row["to_name"]),
        lifecycle_state=None if row is None else row["lifecycle_state"],
        is_deleted=row is not None and bool(row["is_deleted"]),
        last_event_at=None if row is None else from_epoch_micros(row["last_event_at"]),
        written_at=None if row is None else from_epoch_micros(row["written_at"]),
        version=versions[0] if versions else None,
        description=parse_documentation_facet(facets),
        columns=parse_schema_columns(facets.get("schema")),
        tags=parse_tags_facet(facets),
        written_by=_job_names(entities.list_jobs_using(index, namespace, name, "OUTPUT", _MAX_NEIGHBOURS)),
        read_by=_job_names(entities.list_jobs_using(index, namespace, name, "INPUT", _MAX_NEIGHBOURS)),
        facets=_raw_facets(facets),
    )


def to_dataset_summary(row: Row) -> DatasetSummary:
    """Convert a dataset row."""
    namespace, name = row["namespace"], row["name"]
    is_deleted = bool(row["is_deleted"])
    return DatasetSummary(
        Node("dataset", namespace, name).id, namespace, name, from_epoch_micros(row["last_event_at"]), is_deleted
    )


def describe_job(index: IndexReader, namespace: str, name: str) -> JobDetails:
    """Load the details of a job."""
    row = entities.find_job(index, namespace, name)
    latest = None if row is None or row["latest_run_uuid"] is None else entities.find_run(index, row["latest_run_uuid"])
    facets = index.facets("job", namespace, name)
    parent = None if latest is None else _dataset_name(latest["parent_job_namespace"], latest["parent_job_name"])
    return JobDetails(
        id=Node("job", namespace, name).id,
        namespace=namespace,
        name=name,
        type=None if row is None else row["job_type"],
        integration=None if row is None else row["integration"],
        processing_type=None if row is None else row["processing_type"],
        description=None if row is None else row["description"],
        parent=None if parent is None else JobName(parent.namespace, parent.name),
        last_event_at=None if row is None else from_epoch_micros(row["last_event_at"]),
        latest_run=None if latest is None else to_run_summary(latest),
        inputs=_dataset_names(entities.list_datasets_used_by(index, namespace, name, "INPUT", _MAX_NEIGHBOURS)),
        outputs=_dataset_names(entities.list_datasets_used_by(index, namespace, name, "OUTPUT", _MAX_NEIGHBOURS)),
        tags=parse_tags_facet(facets),
        is_placeholder=row is None or bool(row["is_placeholder"]),
        facets=_raw_facets(facets),
    )


def to_job_summary(row: Row) -> JobSummary:
    """Convert a job row."""
    namespace, name = row["namespace"], row["name"]
    return JobSummary(
        Node("job", namespace, name).id,
        namespace,
        name,
        row["job_type"],
        from_epoch_micros(row["last_event_at"]),
        row["latest_run_uuid"],
    )


def parse_schema_columns(facet: bytes | None) -> tuple[ColumnInfo, ...]:
    """Parse the columns of a schema facet; none if it is malformed."""
    try:
        return () if facet is None else _decode_schema(facet).fields or ()
    except msgspec.DecodeError:
        return ()


def load_schema_columns(index: IndexReader, schema_id: str | None) -> tuple[ColumnInfo, ...]:
    """Load the columns of a stored schema; none if it is malformed."""
    text = entities.find_schema_fields(index, schema_id)
    try:
        return () if text is None else _decode_columns(text)
    except msgspec.DecodeError:
        return ()


def parse_documentation_facet(facets: dict[str, bytes]) -> str | None:
    """Parse the description of the documentation facet."""
    try:
        return _decode_documentation(facets.get("documentation", b"{}")).description
    except msgspec.DecodeError:
        return None


def parse_tags_facet(facets: dict[str, bytes]) -> tuple[TagInfo, ...]:
    """Parse the tags facet."""
    facet = facets.get("tags")
    return () if facet is None else tuple(TagInfo(tag.key, tag.value, tag.field) for tag in parse_tags(facet))


def run_duration_ms(run: Row) -> float | None:
    """Return the duration of a run, or None without start or end."""
    started, ended = run["started_at"], run["ended_at"]
    return None if started is None or ended is None else (ended - started) / 1000


def _job_name(run: Row) -> JobName | None:
    return None if run["job_name"] is None else JobName(run["job_namespace"] or "", run["job_name"])


def _dataset_name(namespace: str | None, name: str | None) -> DatasetName | None:
    return None if namespace is None or name is None else DatasetName(namespace, name)


def _run_ios(rows: list[Row], direction: Literal["INPUT", "OUTPUT"]) -> tuple[RunIo, ...]:
    return tuple(
        RunIo(
            row["dataset_namespace"],
            row["dataset_name"],
            row["dataset_version"] or None,
            row["row_count"],
            bool(row["is_implied"]),
        )
        for row in rows
        if row["direction"] == direction
    )


def _job_names(rows: list[Row]) -> tuple[JobName, ...]:
    return tuple(JobName(*row) for row in rows)


def _dataset_names(rows: list[Row]) -> tuple[DatasetName, ...]:
    return tuple(DatasetName(*row) for row in rows)


def _raw_facets(facets: dict[str, bytes]) -> dict[str, Raw]:
    return {name: Raw(body) for name, body in facets.items()}
