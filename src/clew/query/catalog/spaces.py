"""Load namespaces and data sources."""

from __future__ import annotations

from clew.events.facet_values import decode_facet, get_str
from clew.index.catalog import EntityQueries
from clew.query.catalog.datasets import DEFAULT_SOURCE
from clew.query.catalog.model import DataSource, Name, Namespace
from clew.query.catalog.notes import Annotations
from clew.query.moments import from_epoch_micros

ANONYMOUS = "anonymous"


def load_namespaces(reader: EntityQueries, annotations: Annotations) -> list[Namespace]:
    """Load all namespaces by name, from events and annotations."""
    rows = {row["namespace"]: row for row in reader.namespaces()}
    namespaces = []
    for name in sorted({*rows, *annotations.namespaces()}):
        row, annotation = rows.get(name), annotations.namespace(name)
        namespaces.append(
            Namespace(
                name,
                created_at=None if row is None else from_epoch_micros(row["first_event_at"]),
                updated_at=None if row is None else from_epoch_micros(row["last_event_at"]),
                owner=ANONYMOUS if annotation is None else annotation.owner,
                description=None if annotation is None else annotation.description,
                is_hidden=_is_hidden(reader, annotations, name),
            )
        )
    return namespaces


def _is_hidden(reader: EntityQueries, annotations: Annotations, name: str) -> bool:
    hidden_at = annotations.hidden_namespace(name)
    if hidden_at is None:
        return False
    seqs = (reader.last_event_seq(kind, name, None) for kind in ("job", "dataset"))
    return hidden_at >= max((seq for seq in seqs if seq is not None), default=0)


class DataSourceCache:
    """Cache of data sources by name; refreshed from datasets with changed facets only."""

    def __init__(self) -> None:
        self._seq = -1
        self._by_dataset: dict[Name, DataSource] = {}

    def all(self, reader: EntityQueries, annotations: Annotations) -> list[DataSource]:
        """Return all data sources by name."""
        self._refresh(reader)
        sources: dict[str, DataSource] = {}
        for source in self._by_dataset.values():
            sources.setdefault(source.name, source)
        # Datasets without a dataSource facet.
        sources.setdefault(DEFAULT_SOURCE, DataSource(DEFAULT_SOURCE, _type(""), None, None, "", None))
        for name, annotation in annotations.sources().items():
            sources[name] = DataSource(name, annotation.type, None, None, annotation.url, annotation.description)
        return [sources[name] for name in sorted(sources)]

    def _refresh(self, reader: EntityQueries) -> None:
        changed = reader.facets_changed_since(self._seq)
        rows = reader.datasets_of([name for name, _, _ in changed]) if changed else {}
        for name, seq, facets in changed:
            self._seq = max(self._seq, seq)
            if "dataSource" in facets and name in rows:
                value = decode_facet(bytes(facets["dataSource"]))
                url = get_str(value, "uri") or ""
                source = get_str(value, "name") or DEFAULT_SOURCE
                times = from_epoch_micros(rows[name].first_event_at), from_epoch_micros(rows[name].last_event_at)
                self._by_dataset[name] = DataSource(source, _type(url), *times, url, None)


def _type(url: str) -> str:
    """Derive the source type from the scheme of a URL."""
    scheme, separator, _ = url.removeprefix("jdbc:").partition(":")
    return scheme.upper() if separator and scheme.isascii() else "UNKNOWN"
