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
from clew.index.rows import RunRow
from clew.query.catalog.model import Name
from clew.query.moments import moment

_MOST_REMEMBERED = 20_000


class Version(Struct, gc=False):
    """A version: who made it and when, and what it was called by its own `version` facet, if by anything."""

    dataset: Name
    said: str
    run_uuid: str | None
    at: int
    schema_id: str | None
    lifecycle_state: str | None
    _id: str | None = None

    @property
    def id(self) -> str:
        """Its name, made when it is asked for: a dataset may have thousands of versions."""
        if self._id is None:
            content = () if self.run_uuid is not None else (self.schema_id, self.lifecycle_state)
            self._id = version_id(self.dataset, self.said, self.run_uuid, *content)
        return self._id

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
        for namespace, own_name, said, run_uuid, at, schema_id, state in self._reader.writes_of(list(owners)):
            dataset = namespace, own_name
            found[owners[dataset]].append(Version(dataset, said, run_uuid, at, schema_id, state))
        for name in missing:
            self._known[name] = _told_apart(found[name])

    def of(self, name: Name) -> list[Version]:
        """All versions of a dataset."""
        known = self._known.get(name)
        if known is None:
            self.load((name,))
            known = self._known[name]
        return known

    def current(self, name: Name) -> Version | None:
        """The version that was made last."""
        versions = self.of(name)
        return versions[-1] if versions else None

    def find(self, name: Name, version: str) -> Version | None:
        """The version of that id; or the last that a producer called so."""
        versions = self.of(name)
        by_id = next((one for one in versions if one.id == version), None)
        return by_id or next((one for one in reversed(versions) if version and one.said == version), None)

    def read_by(self, run: RunRow, name: Name, said: str) -> Version | None:
        """The version that a run found: the one that it named, else the last that another had made when it began."""
        versions = self.of(name)
        if said:
            return next((one for one in reversed(versions) if one.said == said), None)
        began = run.first_event_at if run.started_at is None else run.started_at
        place = 0 if began is None else bisect_right(versions, began, key=lambda one: one.at)
        if place and versions[place - 1].run_uuid == run.run_uuid:
            place -= 1
        return versions[place - 1] if place else None


def version_id(dataset: Name, said: str, run_uuid: str | None, *content: str | None) -> str:
    """The id of what a run wrote, or of what was declared with that content."""
    text = entity("dataset", *dataset, said, run_uuid, *content)
    # A name, not a secret.
    name = md5(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()
    return f"{name[:8]}-{name[8:12]}-3{name[13:16]}-8{name[17:20]}-{name[20:]}"


def _told_apart(versions: list[Version]) -> list[Version]:
    """Without what a run wrote before its version was known: that is one write with the other."""
    told = {(one.dataset, one.run_uuid) for one in versions if one.said and one.run_uuid is not None}
    if not told:
        return versions
    return [one for one in versions if one.said or one.run_uuid is None or (one.dataset, one.run_uuid) not in told]
