"""Log writer: events are synced to disk when `append` returns."""

from __future__ import annotations

import base64
import fcntl
import logging
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Self

import msgspec
from msgspec import Raw, Struct

from clew.data_dir import create_private_folder
from clew.errors import ClewError
from clew.eventlog.segments import (
    BYTES_PREFIX,
    END_FILE,
    EVENT_PREFIX,
    LogRecord,
    SegmentRange,
    complete_size,
    first_received_at,
    format_head,
    list_paths,
    list_segments,
    read_event_ids,
    read_known_end,
    segment_base,
    segment_path,
)
from clew.events.ids import content_id, content_id_holding_gil, to_single_line
from clew.events.streams import Stream

_LOG = logging.getLogger("clew.eventlog")
SEGMENT_BYTES = 64 << 20
# Retention drops whole segments, so a segment that never fills up must end too.
SEGMENT_AGE = timedelta(days=1)
# Deduplication window: a client without a response within seconds sends the same bytes again.
_DEDUP_WINDOW_BYTES = 64 << 20
_DEDUP_WINDOW_EVENTS = 200_000
_CUT = "The log %s ends at %d, before its last known end %d: it was cut. New events start there."
# IOV_MAX of Linux.
_MAX_BUFFERS_PER_WRITE = 1024


class LogLockedError(ClewError):
    """Another process holds the log's lock."""


@dataclass(frozen=True)
class IncomingEvent:
    """Event as received."""

    stream: Stream
    source: str
    body: bytes


class LogEntry(Struct, frozen=True):
    """Event to be stored: JSON on one line, or other bytes.

    The id is a hash of the body. If not set, the appending thread computes it, to relieve the event loop.
    """

    stream: Stream
    source: str
    body: bytes | memoryview
    is_json: bool
    event_id: str | None = None

    @classmethod
    def from_event(cls, event: IncomingEvent) -> LogEntry:
        """Create the entry of a received event."""
        is_json = _is_json(event.body)
        body = to_single_line(event.body) if is_json else event.body
        return cls(event.stream, event.source, body, is_json)


def normalize_body(body: bytes) -> bytes:
    """Return the bytes that the log stores, of which the event id is the hash."""
    return to_single_line(body) if _is_json(body) else body


class LogWriter:
    """Exclusive writer of a log. Use as a context manager: it holds the log's lock.

    Positions are never reused: if the log was cut, also while it is open, a new segment starts at its last known end.
    `known_end` is a position up to which the log is known to have been read.
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_age: timedelta = SEGMENT_AGE,
        known_end: int = 0,
    ) -> None:
        self.folder = folder
        self._known_end = known_end
        self.segment_bytes = segment_bytes
        self.segment_age = segment_age
        self._recent_ids: OrderedDict[str, None] = OrderedDict()
        self._segment_started_at: datetime | None = None
        self._unsynced_bytes = 0
        self._unsynced_ids: Collection[str] = ()

    def __enter__(self) -> Self:
        with ExitStack() as resources, self._wrap_os_errors():
            create_private_folder(self.folder)
            lock = resources.enter_context((self.folder / ".lock").open("w"))
            self._acquire_lock(lock)
            self._end_file = os.open(self.folder / END_FILE, os.O_CREAT | os.O_RDWR, 0o600)
            resources.callback(os.close, self._end_file)
            self._open_last_segment()
            resources.callback(lambda: os.close(self._file))
            self._load_recent_ids()
            self._resources = resources.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @property
    def position(self) -> int:
        """Position of the next event."""
        return self._base + self._size

    def append(self, events: Iterable[IncomingEvent]) -> int:
        """Store new events, sync, and return their number."""
        return self.append_entries(map(LogEntry.from_event, events))

    def append_duplicates(self, events: Iterable[IncomingEvent]) -> int:
        """Store events without deduplication, sync, and return their number."""
        return self._append(map(LogEntry.from_event, events), frozenset())

    def append_entries(self, entries: Iterable[LogEntry]) -> int:
        """Store new entries, sync, and return their number."""
        return self._append(entries, self._recent_ids)

    def write(self, entries: Iterable[LogEntry]) -> None:
        """Write new entries. They are stored when `sync` returns, which must follow."""
        self._write_new(entries, self._recent_ids, content_id)

    def sync(self) -> None:
        """Sync what was written."""
        if not self._unsynced_bytes:
            return
        try:
            os.fdatasync(self._file)
        except OSError as error:
            raise self._rollback(error) from error
        self._size += self._unsynced_bytes
        # Not synced: a crash leaves an older value, which is harmless.
        os.pwrite(self._end_file, b"%020d" % self.position, 0)
        # After the sync: an event that failed to be stored must not count as a duplicate when it is sent again.
        self._add_recent_ids(self._unsynced_ids)
        self._unsynced_bytes, self._unsynced_ids = 0, ()

    def adopt(self, staged: Path) -> None:
        """Append a staged file as a segment of its own. It must be synced, and nothing may be unsynced here."""
        with self._wrap_os_errors():
            size, base = complete_size(staged), self.position
            if not size:
                staged.unlink()
                return
            # Replaces the current segment if that is empty.
            segment = staged.rename(segment_path(self.folder, base))
            try:
                os.truncate(segment, size)
                self._open_next(base + size)
            except OSError:
                segment.rename(staged)
                raise
            os.pwrite(self._end_file, b"%020d" % self.position, 0)

    def _append(self, entries: Iterable[LogEntry], known_ids: Collection[str]) -> int:
        self._write_new(entries, known_ids, content_id_holding_gil)
        count = len(self._unsynced_ids)
        self.sync()
        return count

    def _write_new(
        self, entries: Iterable[LogEntry], known_ids: Collection[str], id_of: Callable[[bytes | memoryview], str]
    ) -> None:
        new: dict[str, LogEntry] = {}
        for entry in entries:
            event_id = entry.event_id or id_of(entry.body)
            if entry.body and event_id not in known_ids:
                new.setdefault(event_id, entry)
        if not new:
            return
        now = datetime.now(UTC)
        self._rotate_if_due(now)
        buffers = _format_records(new, now.isoformat(timespec="microseconds"))
        try:
            for start in range(0, len(buffers), _MAX_BUFFERS_PER_WRITE):
                self._write(buffers[start : start + _MAX_BUFFERS_PER_WRITE])
        except OSError as error:
            raise self._rollback(error) from error
        self._segment_started_at = self._segment_started_at or now
        self._unsynced_bytes, self._unsynced_ids = sum(map(len, buffers)), new.keys()

    def _rollback(self, error: OSError) -> ClewError:
        """Truncate the log to the last sync and return the error to raise.

        A partial line would otherwise be joined with the next event.
        """
        self._unsynced_bytes, self._unsynced_ids = 0, ()
        os.ftruncate(self._file, self._size)
        message = f"Cannot write to the log {self.folder}: {error.strerror}. No event of this batch was stored."
        return ClewError(message, hint="Free disk space, then send the events again.")

    def _write(self, buffers: Sequence[bytes | memoryview]) -> None:
        written = os.writev(self._file, buffers)
        if written == sum(map(len, buffers)):
            return
        remaining = deque[memoryview](memoryview(buffer) for buffer in buffers)
        while remaining:
            while remaining and written >= len(remaining[0]):
                written -= len(remaining.popleft())
            if written:
                remaining[0] = remaining[0][written:]
            written = os.writev(self._file, remaining) if remaining else 0

    @contextmanager
    def _wrap_os_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"Cannot write to the log {self.folder}: {error.strerror}."
            raise ClewError(message, hint="Use another folder with --home DIR or CLEW_HOME.") from error

    def _acquire_lock(self, lock: IO[str]) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"Another process is writing to the log {self.folder}."
            raise LogLockedError(message, hint="Stop it, or use another data directory with --home DIR.") from error

    def _open_last_segment(self) -> None:
        known_end = max(read_known_end(self.folder), self._known_end)
        self._restore_last_newline(known_end)
        existing = list_segments(self.folder)
        self._open(existing[-1].base if existing else known_end)
        if self.position < known_end:
            _LOG.warning(_CUT, self.folder, self.position, known_end)
            self._open_next(known_end)

    def _restore_last_newline(self, known_end: int) -> None:
        """Restore a damaged newline at the known end: otherwise its record would be taken for a torn tail."""
        for path in list_paths(self.folder)[-1:]:
            offset = known_end - segment_base(path) - 1
            if 0 <= offset < path.stat().st_size:
                with path.open("rb+") as file:
                    file.seek(offset)
                    if file.read(1) != b"\n":
                        file.seek(offset)
                        file.write(b"\n")

    def _open(self, base: int) -> None:
        path = segment_path(self.folder, base)
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            size = complete_size(path)
            os.ftruncate(file, size)
            _sync_folder(self.folder)
        except OSError:
            os.close(file)
            raise
        self._base, self._file, self._size = base, file, size
        self._segment_started_at = first_received_at(path)

    def _open_next(self, base: int) -> None:
        previous = self._file
        # Closed only after the next segment is open, so that the writer never holds a closed file.
        self._open(base)
        os.close(previous)

    def _rotate_if_due(self, now: datetime) -> None:
        status = os.fstat(self._file)
        is_cut = status.st_size < self._size or not status.st_nlink
        if is_cut:
            _LOG.warning(_CUT, self.folder, self._base + status.st_size, self.position)
        is_full = self._size >= self.segment_bytes
        if (self._size or is_cut) and (
            is_cut
            or is_full
            or (self._segment_started_at is not None and now - self._segment_started_at >= self.segment_age)
        ):
            with self._wrap_os_errors():
                self._open_next(self.position)

    def _add_recent_ids(self, event_ids: Iterable[str]) -> None:
        self._recent_ids.update(dict.fromkeys(event_ids))
        while len(self._recent_ids) > _DEDUP_WINDOW_EVENTS:
            self._recent_ids.popitem(last=False)

    def _load_recent_ids(self) -> None:
        oldest = self.position - _DEDUP_WINDOW_BYTES
        for segment in list_segments(self.folder):
            if segment.end <= max(oldest, segment.base):
                continue
            segment_range = SegmentRange(str(segment.path), segment.base, max(oldest, segment.base), segment.end)
            self._add_recent_ids(read_event_ids(segment_range))


def _format_records(entries: Mapping[str, LogEntry], now: str) -> list[bytes | memoryview]:
    """Format entries as buffers for writev: bodies are not copied, and heads are cached per sender."""
    heads: dict[tuple[Stream, str], bytes] = {}
    buffers: list[bytes | memoryview] = []
    for event_id, entry in entries.items():
        sender = entry.stream, entry.source
        head = heads.get(sender)
        if head is None:
            head = heads[sender] = msgspec.json.encode(LogRecord(now, *sender))[:-1]
        prefix = EVENT_PREFIX if entry.is_json else BYTES_PREFIX
        body = entry.body if entry.is_json else b'"%s"' % base64.b64encode(entry.body)
        buffers += (format_head(head, event_id.encode(), prefix, body), body, b"}\n")
    return buffers


def _is_json(body: bytes) -> bool:
    try:
        body.decode()
        msgspec.json.decode(body, type=Raw)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
