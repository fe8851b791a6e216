"""Import of event objects below a prefix of a bucket: each object once, also those that are added later."""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from clew.collector.file_import import (
    EventAppender,
    ImportResult,
    OnImportProgress,
    UnreadableEventsError,
    append_events,
    read_event_object,
)
from clew.data_dir import BucketUrl
from clew.errors import ClewError
from clew.lake.objects import StoredObjectInfo, list_objects, read_object

_LOG = logging.getLogger(__name__)
_STATE_FILE = "objects.sqlite"
_SCHEMA: Final = """
create table if not exists objects (
    url text primary key, etag text not null, events integer not null, error text
) without rowid
"""
# Names that writers of data lakes use for files that are no data, and formats that are no events.
_SKIPPED = re.compile(r"(^|/)[_.][^/]*$|/$|\.(parquet|csv|avro|orc|crc|tmp|html|sqlite|zip|tar|tgz)$", re.IGNORECASE)
_MIN_POLL_SECONDS = 5.0
# Listing a prefix of a million objects takes minutes: it may use a tenth of the time.
_MAX_LISTING_SHARE = 0.1


class ObjectImporter:
    """Appends the events of new objects. Use as a context manager: it stores which objects were read.

    An object is recorded after its events are stored; after a crash it is read again, and its events are duplicates. An
    object that was overwritten has another ETag and is read again.
    """

    def __init__(self, prefixes: Sequence[BucketUrl], log: EventAppender) -> None:
        self._prefixes = prefixes
        self._log = log
        self._next_poll = 0.0

    def __enter__(self) -> Self:
        self._state = sqlite3.connect(_state_path(self._log), isolation_level=None)
        self._state.execute("pragma journal_mode = wal")
        self._state.execute(_SCHEMA)
        return self

    def __exit__(self, *_: object) -> None:
        self._state.close()

    def check(self) -> None:
        """Raise ClewError if a prefix cannot be listed."""
        for prefix in self._prefixes:
            next(list_objects(prefix), None)

    def import_all(self, on_progress: OnImportProgress = lambda *_: None) -> ImportResult:
        """Import all new objects; ClewError at the end if some cannot be read."""
        errors: list[ClewError] = []
        result = self._import_new(errors, on_progress, retries=True)
        if errors:
            more = f" {len(errors) - 1} more objects cannot be read." if len(errors) > 1 else ""
            raise ClewError(f"{errors[0].message}{more}", hint=errors[0].hint)
        return result

    def poll(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Import new objects if it is due; errors are logged, and the next call continues."""
        started = time.monotonic()
        if started < self._next_poll:
            return
        errors: list[ClewError] = []
        try:
            self._import_new(errors, is_stopped=is_stopped)
        except ClewError as error:
            errors.append(error)
        for logged in errors:
            _LOG.warning("%s", logged.message)
        ended = time.monotonic()
        self._next_poll = ended + max(_MIN_POLL_SECONDS, (ended - started) / _MAX_LISTING_SHARE)

    def _import_new(
        self,
        errors: list[ClewError],
        on_progress: OnImportProgress = lambda *_: None,
        *,
        is_stopped: Callable[[], bool] = lambda: False,
        retries: bool = False,
    ) -> ImportResult:
        new = [
            (prefix, item)
            for prefix in self._prefixes
            for item in list_objects(prefix)
            if not self._is_imported(prefix, item, retries=retries)
        ]
        # The order of writing: a run starts before it completes.
        new.sort(key=lambda pair: (pair[1].modified_at, pair[1].key))
        total, done, read, stored = sum(item.size for _, item in new), 0, 0, 0
        for prefix, item in new:
            if is_stopped():
                break
            result = self._import_object(prefix, item, errors)
            done, read, stored = done + item.size, read + result.read, stored + result.stored
            on_progress(done, total, read)
        return ImportResult(read, stored)

    def _import_object(self, prefix: BucketUrl, item: StoredObjectInfo, errors: list[ClewError]) -> ImportResult:
        url, counts = _object_url(prefix, item), ImportResult(0, 0)
        reason: str | None = None

        def bodies() -> Iterator[bytes]:
            for event in read_event_object(url, read_object(prefix, item.key)):
                yield event.body

        try:
            for result in append_events(self._log, url, bodies()):
                counts = ImportResult(counts.read + result.read, counts.stored + result.stored)
        except UnreadableEventsError as exc:
            errors.append(exc)
            reason = exc.message
        row = (url, item.etag, counts.read, reason)
        self._state.execute("insert or replace into objects values (?, ?, ?, ?)", row)
        return counts

    def _is_imported(self, prefix: BucketUrl, item: StoredObjectInfo, *, retries: bool) -> bool:
        if not item.size or _SKIPPED.search(item.key):
            return True
        row = self._state.execute(
            "select etag, error from objects where url = ?", [_object_url(prefix, item)]
        ).fetchone()
        return row is not None and row[0] == item.etag and not (retries and row[1])


def _state_path(log: EventAppender) -> Path:
    log.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return log.folder / _STATE_FILE


def _object_url(prefix: BucketUrl, item: StoredObjectInfo) -> str:
    return f"{prefix.root}/{item.key}"
