"""Shows deleted jobs and datasets again when an event about them is received that is already known.

New events show an entity again by their position in the log. A known event is stored only once, and so has none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock

from clew.api.marquez.write_handlers import LOG_SOURCE
from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent, LogEntry
from clew.events.decoding import RejectedError
from clew.events.ids import event_id
from clew.events.openlineage import Event
from clew.events.streams import Stream, decode_event
from clew.query.context import QueryResources
from clew.query.entities.annotations import SoftDelete, annotation_body, annotation_event, annotation_key
from clew.query.entities.catalog import UnindexedAnnotations
from clew.query.entities.unindexed import EntityReference, event_references


class Revivals:
    """The deleted jobs and datasets, and the annotations that show them again.

    Requests add to them in threads, and the event loop reads them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._deleted: dict[EntityReference, bytes] = {}
        self._pending = UnindexedAnnotations()

    def load(self, resources: QueryResources) -> None:
        """Read the deleted jobs and datasets of an index, if there is one."""
        self._pending = resources.unindexed_annotations
        with suppress(ClewError, sqlite3.Error), resources.catalog() as catalog:
            for reference in catalog.annotations.deleted():
                self.add(*reference)

    def add(self, kind: str, namespace: str, name: str) -> None:
        """Add a deleted job or dataset."""
        reference: EntityReference = ("job", namespace, name) if kind == "job" else ("dataset", namespace, name)
        with self._lock:
            self._deleted[reference] = name.encode()

    def annotations_for(self, entries: Iterable[LogEntry]) -> list[LogEntry]:
        """Return the annotations to store with the entries of events; none is the usual case, and costs nothing."""
        if not self._deleted:
            return []
        with self._lock:
            named = {reference for entry in entries for reference in self._named_in(entry)}
            for reference in named:
                del self._deleted[reference]
        if not named:
            return []
        annotations = [
            (annotation_key("hidden", *reference), annotation_body(SoftDelete(is_hidden=False)))
            for reference in sorted(named)
        ]
        entry = LogEntry.from_event(IncomingEvent(Stream.OPENLINEAGE, LOG_SOURCE, annotation_event(annotations)))
        self._pending.add(event_id(bytes(entry.body)), annotations, 0)
        return [entry]

    def _named_in(self, entry: LogEntry) -> set[EntityReference]:
        """Return the deleted entities that an event names."""
        body = entry.body
        # Large bodies are in files, which are not searched.
        if entry.stream != Stream.OPENLINEAGE or not isinstance(body, bytes):
            return set()
        # A backslash may be part of a name that is escaped.
        if b"\\" not in body and not any(name in body for name in self._deleted.values()):
            return set()
        try:
            event = decode_event(entry.stream, body)
        except RejectedError:
            return set()
        return self._deleted.keys() & set(event_references(event)) if isinstance(event, Event) else set()
