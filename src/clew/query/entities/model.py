"""Entities of the catalog, and version ids."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import md5
from itertools import chain

from msgspec import Struct

from clew.events.facets import Tag
from clew.index.encoding import entity_key
from clew.index.queries.entities import Facets, Name
from clew.index.queries.reader import IndexReader
from clew.index.queries.records import RunRecord
from clew.query.model import DatasetName, State, Transformation, from_epoch_micros


class RunDataset(Struct, frozen=True):
    """A dataset that a run read or wrote; implied if only a lineage facet mentions it.

    `version` is that of the `version` facet. `version_id` is None if no write of it is recorded.
    """

    namespace: str
    name: str
    version: str | None
    version_id: str | None
    row_count: int | None
    schema_id: str | None
    is_implied: bool
    facets: Facets


class ParentRun(Struct, frozen=True):
    """Parent run of a run, and its job."""

    run_id: str | None
    namespace: str | None
    name: str | None


class AssertionResult(Struct, frozen=True, rename="camel"):
    """Result of a data quality test of a dataset; `success` is None if it is unknown. `params` is JSON."""

    dataset: DatasetName
    assertion: str
    column: str | None
    name: str | None
    success: bool | None
    severity: str | None
    description: str | None
    expected: str | None
    actual: str | None
    content: str | None
    content_type: str | None
    params: str | None
    run_uuid: str | None
    at: datetime | None


class CatalogRun(Struct, frozen=True):
    """A run; a placeholder is only referenced by other runs.

    In a list, it has no inputs, outputs, facets and test results.
    """

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
    root_run_id: str | None
    job_version: str | None
    error: str | None
    session_id: str | None
    is_placeholder: bool
    inputs: tuple[RunDataset, ...] = ()
    outputs: tuple[RunDataset, ...] = ()
    facets: Facets = {}
    assertions: tuple[AssertionResult, ...] = ()

    @property
    def duration_ms(self) -> float | None:
        """Duration; None without start or end."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at) / _MILLISECOND

    @property
    def start_time(self) -> datetime | None:
        """Start, or the first event if there is no START event."""
        return self.started_at or self.created_at


class CatalogJob(Struct, frozen=True):
    """A job with its latest runs, latest start first.

    Inputs and outputs are those of the current version, `reads` and `writes` those of all versions.
    """

    namespace: str
    name: str
    parent: Name | None
    type: str | None
    integration: str | None
    processing_type: str | None
    created_at: datetime | None
    updated_at: datetime | None
    description: str | None
    latest_run: CatalogRun | None
    tags: tuple[Tag, ...]
    facets: Facets
    is_placeholder: bool
    location: str | None = None
    inputs: tuple[Name, ...] = ()
    outputs: tuple[Name, ...] = ()
    latest_runs: tuple[CatalogRun, ...] = ()
    current_version: str | None = None
    reads: tuple[Name, ...] = ()
    writes: tuple[Name, ...] = ()


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
    type: str | None = None
    tags: tuple[str, ...] = ()
    description: str | None = None


class SourceColumn(Struct, frozen=True):
    """A source of a column; `field` is None if the source column is unknown."""

    namespace: str
    dataset: str
    field: str | None
    transformations: tuple[Transformation, ...]


class ColumnSources(Struct, frozen=True, cache_hash=True):
    """A column and its sources; `name` is None for sources that affect every column, such as filters."""

    name: str | None
    sources: tuple[SourceColumn, ...]


class CatalogDataset(Struct, frozen=True):
    """Current state of a dataset; `name` is the requested name, `names` are all its names, the canonical one first.

    The facets, fields, tags and description are those of `facet_version`, the version that had facets last, and those
    reported without a version.
    `input_facets` and `output_facets` are those of the last reads and writes, without facets that the dataset has in a
    later event. `assertions` are the last results of each job that tests the dataset.
    """

    namespace: str
    name: str
    names: tuple[Name, ...]
    created_at: datetime | None
    updated_at: datetime | None
    written_at: datetime | None
    lifecycle_state: str | None
    is_deleted: bool
    renamed_from: DatasetName | None
    renamed_to: DatasetName | None
    source: str
    fields: tuple[SchemaField, ...]
    tags: tuple[Tag, ...]
    description: str | None
    facets: Facets
    facet_version: str | None
    current_version: VersionRecord | None = None
    columns: tuple[ColumnSources, ...] = ()
    written_by: tuple[Name, ...] = ()
    read_by: tuple[Name, ...] = ()
    input_facets: Facets = {}
    output_facets: Facets = {}
    assertions: tuple[AssertionResult, ...] = ()

    @property
    def physical_name(self) -> str:
        """Canonical name."""
        return self.names[0][1]


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
    tags: tuple[Tag, ...]
    lifecycle_state: str | None
    description: str | None
    created_by: CatalogRun | None
    facets: Facets


class Namespace(Struct, frozen=True, rename="camel"):
    """A namespace."""

    name: str
    created_at: datetime | None
    updated_at: datetime | None
    owner_name: str
    description: str | None
    is_hidden: bool


class DataSource(Struct, frozen=True, rename="camel"):
    """A data source, from `dataSource` facets or annotations."""

    type: str
    name: str
    created_at: datetime | None
    updated_at: datetime | None
    connection_url: str
    description: str | None


class TagDefinition(Struct, frozen=True):
    """A tag and its description."""

    name: str
    description: str | None


_MAX_CACHED = 20_000
_MILLISECOND = timedelta(milliseconds=1)


class VersionRecord(Struct, gc=False):
    """A dataset version: the run and time of the write, and the value of its `version` facet or an empty string."""

    dataset: Name
    producer_version: str
    run_uuid: str | None
    at: int
    schema_id: str | None
    lifecycle_state: str | None
    row_count: int | None
    _id: str | None = None

    @property
    def id(self) -> str:
        """Id, computed lazily because a dataset may have thousands of versions."""
        if self._id is None:
            content = () if self.run_uuid is not None else (self.schema_id, self.lifecycle_state)
            self._id = make_version_id(self.dataset, self.producer_version, self.run_uuid, *content)
        return self._id

    @property
    def created_at(self) -> datetime | None:
        """Time of the write."""
        return from_epoch_micros(self.at)


class VersionCache:
    """Cache of the versions of datasets, oldest first; all names of a dataset share them."""

    def __init__(self, reader: IndexReader, aliases: dict[Name, tuple[Name, ...]]) -> None:
        self._reader = reader
        self._aliases = aliases
        self._cached: dict[Name, list[VersionRecord]] = {}

    def load(self, names: Iterable[Name]) -> None:
        """Load the versions of datasets in one batch."""
        all_aliases = map(self._aliases_of, names)
        missing = {aliases[0]: aliases for aliases in all_aliases if aliases[0] not in self._cached}
        if not missing:
            return
        if len(self._cached) > _MAX_CACHED:
            self._cached.clear()
        versions: defaultdict[Name, list[VersionRecord]] = defaultdict(list)
        owners = {alias: name for name, aliases in missing.items() for alias in aliases}
        for write in self._reader.writes_of(list(owners)):
            versions[owners[write[:2]]].append(VersionRecord(write[:2], *write[2:]))
        for name in missing:
            self._cached[name] = _merge_unversioned(versions[name])

    def get(self, name: Name) -> list[VersionRecord]:
        """Return all versions of a dataset, oldest first."""
        canonical = self._aliases_of(name)[0]
        versions = self._cached.get(canonical)
        if versions is None:
            self.load((name,))
            versions = self._cached[canonical]
        return versions

    def _aliases_of(self, name: Name) -> tuple[Name, ...]:
        return self._aliases.get(name, (name,))

    def current(self, name: Name) -> VersionRecord | None:
        """Return the latest version of a dataset."""
        versions = self.get(name)
        return versions[-1] if versions else None

    def find(self, name: Name, version: str) -> VersionRecord | None:
        """Find a version by id, or the latest with that producer version."""
        versions = self.get(name)
        by_id = next((record for record in versions if record.id == version), None)
        by_name = (record for record in reversed(versions) if version and record.producer_version == version)
        return by_id or next(by_name, None)

    def version_read_by(self, run: RunRecord, name: Name, producer_version: str) -> VersionRecord | None:
        """Return the version that a run read: the latest that another run had written when it started.

        If the run reported a version, only writes of that version count, and later ones if there is no other.
        """
        versions = self.get(name)
        started_at = run.start_time
        count = 0 if started_at is None else bisect_right(versions, started_at, key=lambda record: record.at)
        # Indices, because a dataset may have thousands of versions.
        earlier = (versions[position] for position in range(count - 1, -1, -1))
        later = (versions[position] for position in range(count, len(versions)))
        written_by_others = (record for record in earlier if record.run_uuid != run.run_uuid)
        if not producer_version:
            return next(written_by_others, None)
        candidates = chain(written_by_others, later)
        return next((record for record in candidates if record.producer_version == producer_version), None)


def make_version_id(dataset: Name, producer_version: str, run_uuid: str | None, *content: str | None) -> str:
    """Compute the version id, in UUID format, of a write of a run or of declared content."""
    return key_uuid("dataset", *dataset, producer_version, run_uuid, *content)


def key_uuid(*parts: str | None) -> str:
    """Derive a UUID from the parts of a key."""
    digest = md5(entity_key(*parts).encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-3{digest[13:16]}-8{digest[17:20]}-{digest[20:]}"


def _merge_unversioned(versions: list[VersionRecord]) -> list[VersionRecord]:
    """Remove writes without a version of runs that later reported a version: they are the same write."""
    versioned = {
        (record.dataset, record.run_uuid)
        for record in versions
        if record.producer_version and record.run_uuid is not None
    }
    if not versioned:
        return versions
    return [
        record
        for record in versions
        if record.producer_version or record.run_uuid is None or (record.dataset, record.run_uuid) not in versioned
    ]
