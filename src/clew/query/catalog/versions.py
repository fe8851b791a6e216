"""Versions of datasets and their ids."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from hashlib import md5

from msgspec import Struct

from clew.index.catalog import EntityQueries
from clew.index.keys import entity_key
from clew.index.rows import RunRecord
from clew.query.catalog.model import Name
from clew.query.moments import from_epoch_micros

_MAX_CACHED = 20_000


class VersionRecord(Struct, gc=False):
    """A dataset version: the run and time of the write, and the value of its `version` facet or an empty string."""

    dataset: Name
    producer_version: str
    run_uuid: str | None
    at: int
    schema_id: str | None
    lifecycle_state: str | None
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
    """Cache of the versions of datasets, oldest first."""

    def __init__(self, reader: EntityQueries, aliases: dict[Name, tuple[Name, ...]]) -> None:
        self._reader = reader
        self._aliases = aliases
        self._cached: dict[Name, list[VersionRecord]] = {}

    def load(self, names: Iterable[Name]) -> None:
        """Load the versions of datasets in one batch."""
        missing = {name for name in names if name not in self._cached}
        if not missing:
            return
        if len(self._cached) > _MAX_CACHED:
            self._cached.clear()
        versions: defaultdict[Name, list[VersionRecord]] = defaultdict(list)
        owners = {alias: name for name in missing for alias in self._aliases.get(name, (name,))}
        for namespace, dataset_name, producer_version, run_uuid, at, schema_id, state in self._reader.writes_of(
            list(owners)
        ):
            dataset = namespace, dataset_name
            versions[owners[dataset]].append(VersionRecord(dataset, producer_version, run_uuid, at, schema_id, state))
        for name in missing:
            self._cached[name] = _merge_unversioned(versions[name])

    def get(self, name: Name) -> list[VersionRecord]:
        """Return all versions of a dataset, oldest first."""
        versions = self._cached.get(name)
        if versions is None:
            self.load((name,))
            versions = self._cached[name]
        return versions

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
        """Return the version that a run read: the one it reported, else the latest of another run when it started."""
        versions = self.get(name)
        if producer_version:
            return next((record for record in reversed(versions) if record.producer_version == producer_version), None)
        started_at = run.first_event_at if run.started_at is None else run.started_at
        count = 0 if started_at is None else bisect_right(versions, started_at, key=lambda record: record.at)
        if count and versions[count - 1].run_uuid == run.run_uuid:
            count -= 1
        return versions[count - 1] if count else None


def make_version_id(dataset: Name, producer_version: str, run_uuid: str | None, *content: str | None) -> str:
    """Compute the version id, in UUID format, of a write of a run or of declared content."""
    text = entity_key("dataset", *dataset, producer_version, run_uuid, *content)
    digest = md5(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()
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
