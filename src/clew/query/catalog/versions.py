"""Versions of datasets: one id for each, by which every document names it and which can be asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from hashlib import md5

from msgspec import Struct

from clew.index.catalog import CatalogReader
from clew.index.keys import entity
from clew.index.reader import Row
from clew.query.catalog.model import Name
from clew.query.moments import moment

_MOST_REMEMBERED = 20_000


class Version(Struct, frozen=True, gc=False):
    """A version: who made it and when, and what it was called by its own `version` facet, if by anything."""

    id: str
    dataset: Name
    said: str
    run_uuid: str | None
    at: int
    schema_id: str | None
    lifecycle_state: str | None

    @property
    def created_at(self) -> datetime | None:
        """When it was made."""
        return moment(self.at)


class Versions:
    """The versions of datasets, the earliest first; those that were asked for lately are remembered."""

    def __init__(self, reader: CatalogReader, symlinked: dict[Name, tuple[Name, ...]]) -> None:
        self._reader = reader
        self._symlinked = symlinked
        self._known: dict[Name, list[Version]] = {}

    def load(self, names: Iterable[Name]) -> None:
        """Look up many datasets at once."""
        missing = {name for name in names if name not in self._known}
        if not missing:
            return
        if len(self._known) > _MOST_REMEMBERED:
            self._known.clear()
        found: defaultdict[Name, list[Version]] = defaultdict(list)
        owners = {one: name for name in missing for one in self._symlinked.get(name, (name,))}
        for row in self._reader.writes_of(list(owners)):
            version = _version(row)
            found[owners[version.dataset]].append(version)
        for name in missing:
            self._known[name] = _told_apart(found[name])

    def of(self, name: Name) -> list[Version]:
        """All versions of a dataset."""
        self.load((name,))
        return self._known[name]

    def current(self, name: Name) -> Version | None:
        """The version that was made last."""
        versions = self.of(name)
        return versions[-1] if versions else None

    def find(self, name: Name, version: str) -> Version | None:
        """The version of that id; or the last that a producer called so."""
        versions = self.of(name)
        by_id = next((one for one in versions if one.id == version), None)
        return by_id or next((one for one in reversed(versions) if version and one.said == version), None)

    def read_by(self, run: Row, name: Name, said: str) -> Version | None:
        """The version that a run found: the one that it named, else the last that another had made when it began."""
        versions = self.of(name)
        if said:
            return next((one for one in reversed(versions) if one.said == said), None)
        began = run["first_event_at"] if run["started_at"] is None else run["started_at"]
        place = 0 if began is None else bisect_right(versions, began, key=lambda one: one.at)
        if place and versions[place - 1].run_uuid == run["run_uuid"]:
            place -= 1
        return versions[place - 1] if place else None


def version_id(dataset: Name, said: str, run_uuid: str | None, *content: str | None) -> str:
    """The id of what a run wrote, or of what was declared with that content."""
    text = entity("dataset", *dataset, said, run_uuid, *content)
    # A name, not a secret.
    name = md5(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()
    return f"{name[:8]}-{name[8:12]}-3{name[13:16]}-8{name[17:20]}-{name[20:]}"


def _version(row: Row) -> Version:
    dataset = row["dataset_namespace"], row["dataset_name"]
    said, run_uuid = row["dataset_version"], row["run_uuid"]
    content = () if run_uuid is not None else (row["schema_id"], row["lifecycle_state"])
    return Version(
        version_id(dataset, said, run_uuid, *content),
        dataset,
        said,
        run_uuid,
        row["created_at"],
        row["schema_id"],
        row["lifecycle_state"],
    )


def _told_apart(versions: list[Version]) -> list[Version]:
    """Without what a run wrote before its version was known: that is one write with the other."""
    told = {(one.dataset, one.run_uuid) for one in versions if one.said and one.run_uuid is not None}
    return [one for one in versions if one.said or one.run_uuid is None or (one.dataset, one.run_uuid) not in told]
