"""Staged segments: files of complete log lines, which other processes write and the log's writer adopts.

An import writes them in parallel, with the original time of receipt, also while a collector holds the log. The writer
renames a published file to the next segment: the bytes are not copied, and the order of files is the order of events.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import msgspec

from clew.data_dir import create_private_folder
from clew.errors import ClewError
from clew.eventlog.segments import BYTES_PREFIX, EVENT_PREFIX, format_head
from clew.eventlog.writer import SEGMENT_BYTES, IncomingEvent, LogEntry
from clew.events.ids import content_id

# Facets of events with such a source are left to a backfill.
IMPORT_SOURCE_PREFIX: Final = "import:"
_FOLDER = "staged"
_UNPUBLISHED, _PUBLISHED = ".tmp", ".ready"
_BUFFER_BYTES = 1 << 20


def is_imported(source: str) -> bool:
    """Return whether an event was imported from a history, by the source in its log line."""
    return source.startswith(IMPORT_SOURCE_PREFIX)


def staging_folder(log: Path) -> Path:
    """Return the folder of the staged segments of a log."""
    return log / _FOLDER


def list_published(log: Path) -> list[Path]:
    """Return the segments that wait for adoption, in order."""
    return sorted(staging_folder(log).glob(f"*{_PUBLISHED}"))


def publish_segments(paths: Iterable[Path]) -> list[Path]:
    """Publish written segments for adoption; return their new paths."""
    return [path.rename(path.with_suffix(_PUBLISHED)) for path in paths]


def delete_unpublished(log: Path) -> None:
    """Delete segments that an interrupted import left behind."""
    for path in staging_folder(log).glob(f"*{_UNPUBLISHED}"):
        path.unlink(missing_ok=True)


class StagedSegments:
    """Writes staged segments of about `segment_bytes`, named `name` and a number. Use as a context manager.

    On exit the files are synced and listed in `paths`; after an error they are deleted. `source` is that of the events.
    """

    def __init__(self, log: Path, name: str, source: str, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.paths: list[Path] = []
        self.events = self.bytes = 0
        self.folder = log
        self._folder = staging_folder(log)
        self._name = name
        self._source = _encode(source)
        self._segment_bytes = segment_bytes
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        create_private_folder(self._folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if kind is not None:
            for path in self.paths:
                path.unlink(missing_ok=True)

    def append(self, events: Iterable[IncomingEvent]) -> int:
        """Write events that are received now; return their number."""
        now, count = datetime.now(UTC).isoformat(timespec="microseconds"), 0
        for event in events:
            entry = LogEntry.from_event(event)
            if entry.body:
                self.add(entry, now)
                count += 1
        return count

    def add(self, entry: LogEntry, received_at: str) -> None:
        """Write an event with its time of receipt, in ISO 8601."""
        head = b'{"at":"%s","stream":"%s","source":%s' % (
            received_at.encode(),
            entry.stream.encode(),
            self._source,
        )
        prefix = EVENT_PREFIX if entry.is_json else BYTES_PREFIX
        body = entry.body if entry.is_json else b'"%s"' % base64.b64encode(entry.body)
        identity = entry.event_id or content_id(entry.body)
        try:
            if self._file is None or self._file.tell() >= self._segment_bytes:
                self._open_next()
            assert self._file is not None  # noqa: S101  # opened above
            self._file.write(format_head(head, identity.encode(), prefix, body))
            self._file.write(body)
            self._file.write(b"}\n")
            self.events += 1
            self.bytes += len(body)
        except OSError as error:
            message = f"Cannot write to {self._folder}: {error.strerror}."
            raise ClewError(message, hint="Free disk space, then run the import again: it continues.") from error

    def _open_next(self) -> None:
        self._close()
        path = self._folder / f"{self._name}-{len(self.paths):05d}{_UNPUBLISHED}"
        self.paths.append(path)
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        self._file = os.fdopen(descriptor, "wb", buffering=_BUFFER_BYTES)

    def _close(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        with file:
            file.flush()
            # Adoption is a rename: the bytes must be on disk before.
            os.fsync(file.fileno())


_encode = msgspec.json.encode
