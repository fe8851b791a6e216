"""Namespaces, and the sources that datasets are kept in."""

from __future__ import annotations

from clew.events.facet_values import text_in, value_of
from clew.index.catalog import CatalogReader
from clew.query.catalog.datasets import DEFAULT_SOURCE
from clew.query.catalog.model import Name, Namespace, Source
from clew.query.catalog.notes import Notes
from clew.query.moments import moment

ANONYMOUS = "anonymous"


def namespaces(reader: CatalogReader, notes: Notes) -> list[Namespace]:
    """All namespaces by name: those that events speak of, and those that people made."""
    rows = {row["namespace"]: row for row in reader.namespaces()}
    made = []
    for name in sorted({*rows, *notes.namespaces()}):
        row, note = rows.get(name), notes.namespace(name)
        made.append(
            Namespace(
                name,
                created_at=None if row is None else moment(row["first_event_at"]),
                updated_at=None if row is None else moment(row["last_event_at"]),
                owner=ANONYMOUS if note is None else note.owner,
                description=None if note is None else note.description,
                is_hidden=_is_hidden(reader, notes, name),
            )
        )
    return made


def _is_hidden(reader: CatalogReader, notes: Notes, name: str) -> bool:
    since = notes.hidden_namespace(name)
    if since is None:
        return False
    told = (reader.last_told(kind, name, None) for kind in ("job", "dataset"))
    return since >= max((seq for seq in told if seq is not None), default=0)


class Sources:
    """Sources by name. Only datasets that were described since the last look are looked at."""

    def __init__(self) -> None:
        self._seq = -1
        self._by_dataset: dict[Name, Source] = {}

    def all(self, reader: CatalogReader, notes: Notes) -> list[Source]:
        """All sources by name."""
        self._look(reader)
        found: dict[str, Source] = {}
        for source in self._by_dataset.values():
            found.setdefault(source.name, source)
        # Where a producer names none.
        found.setdefault(DEFAULT_SOURCE, Source(DEFAULT_SOURCE, _type(""), None, None, "", None))
        for name, note in notes.sources().items():
            found[name] = Source(name, note.type, None, None, note.url, note.description)
        return [found[name] for name in sorted(found)]

    def _look(self, reader: CatalogReader) -> None:
        described = reader.described_since(self._seq)
        rows = reader.datasets_of([name for name, _, _ in described]) if described else {}
        for name, seq, facets in described:
            self._seq = max(self._seq, seq)
            if "dataSource" in facets and name in rows:
                value = value_of(bytes(facets["dataSource"]))
                url = text_in(value, "uri") or ""
                source = text_in(value, "name") or DEFAULT_SOURCE
                times = moment(rows[name].first_event_at), moment(rows[name].last_event_at)
                self._by_dataset[name] = Source(source, _type(url), *times, url, None)


def _type(url: str) -> str:
    """What kind of store a URL leads to, by its scheme."""
    scheme, found, _ = url.removeprefix("jdbc:").partition(":")
    return scheme.upper() if found and scheme.isascii() else "UNKNOWN"
