"""Appending to the log: what `append` has returned from is on disk."""

from __future__ import annotations

import base64
import fcntl
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec
from msgspec import Raw, Struct

from clew.collector.segments import (
    BEFORE_EVENT,
    BEFORE_ID,
    Line,
    Range,
    begun_at,
    identity_of,
    read_lines,
    segment_path,
    segments,
    whole_lines_size,
)
from clew.errors import ClewError
from clew.events.identity import content_id, held_id, one_line
from clew.events.stream import Stream

SEGMENT_BYTES = 64 << 20
# Only whole segments can be dropped when they are old: one that is never full must end, too.
SEGMENT_AGE = timedelta(days=1)
# A client that got no answer within seconds sends the same bytes again: look back far enough to know them.
_REMEMBERED_BYTES = 64 << 20
_REMEMBERED_EVENTS = 200_000
# What a system takes at least (IOV_MAX of Linux).
_PARTS_PER_WRITE = 1024


class LogHeldError(ClewError):
    """Another process writes to the log."""


@dataclass(frozen=True)
class Received:
    """An event as it arrived."""

    stream: Stream
    source: str
    body: bytes


class Entry(Struct, frozen=True):
    """An event as the log keeps it: JSON on one line, or any other bytes.

    Its id is made of them, by the thread that appends unless it is given: one that has sockets to see to has none of
    that work.
    """

    stream: Stream
    source: str
    body: bytes | memoryview
    is_json: bool
    identity: str | None = None

    @classmethod
    def of(cls, event: Received) -> Entry:
        """What to keep of an event."""
        is_json = _is_json(event.body)
        body = one_line(event.body) if is_json else event.body
        return cls(event.stream, event.source, body, is_json)


class Written(Struct, frozen=True):
    """Entries that stand in the log, but are on disk only after a sync."""

    identities: Collection[str]
    bytes: int


def stored_body(body: bytes) -> bytes:
    """An event's bytes as the log keeps them and makes the event's id of."""
    return one_line(body) if _is_json(body) else body


class LogWriter:
    """The one appender of a log. Use as a context manager: it holds the log's lock."""

    def __init__(
        self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES, segment_age: timedelta = SEGMENT_AGE
    ) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.segment_age = segment_age
        self._recent: OrderedDict[str, None] = OrderedDict()
        self._begun_at: datetime | None = None

    def __enter__(self) -> Self:
        with ExitStack() as opened, self._refusals():
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = opened.enter_context((self.folder / ".lock").open("w"))
            self._take_lock(lock)
            self._open_last_segment()
            opened.callback(lambda: os.close(self._file))
            self._remember_tail()
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    @property
    def position(self) -> int:
        """Where the next event will stand."""
        return self._base + self._size

    def append(self, events: Iterable[Received]) -> int:
        """Store the events that are new, durably, and say how many those were."""
        return self.append_entries(map(Entry.of, events))

    def append_again(self, events: Iterable[Received]) -> int:
        """Store events, durably, even if they were stored before, and say how many those were."""
        return self._append(map(Entry.of, events), frozenset())

    def append_entries(self, entries: Iterable[Entry]) -> int:
        """Store the entries that are new, durably, and say how many those were."""
        return self._append(entries, self._recent)

    def _append(self, entries: Iterable[Entry], known: Collection[str]) -> int:
        written = self._write_new(entries, known, held_id)
        if written.bytes:
            try:
                os.fdatasync(self._file)
            except OSError as fault:
                raise self.undone(fault) from fault
            self.settle(written)
        return len(written.identities)

    @property
    def file(self) -> int:
        """What has to be synced once something is written."""
        return self._file

    def write(self, entries: Iterable[Entry]) -> Written:
        """Write the entries that are new. They are stored once the file is synced and this is settled, or undone.

        Nothing else may be written in between.
        """
        return self._write_new(entries, self._recent, content_id)

    def settle(self, written: Written) -> None:
        """Note that what was written is on disk."""
        self._size += written.bytes
        # Only now: an event that failed to be stored must not be taken for a repetition when it is sent again.
        self._remember(written.identities)

    def undone(self, fault: OSError) -> ClewError:
        """Take back what was written since the last sync, and say why.

        Nothing of a failed append may stay: a half line would be glued to the next event.
        """
        os.ftruncate(self._file, self._size)
        message = f"The log {self.folder} cannot be written: {fault.strerror}. Nothing of this batch was stored."
        return ClewError(message, hint="Make room on the disk, then send the events again.")

    def _write_new(
        self, entries: Iterable[Entry], known: Collection[str], id_of: Callable[[bytes | memoryview], str]
    ) -> Written:
        new: dict[str, Entry] = {}
        for entry in entries:
            identity = entry.identity or id_of(entry.body)
            if entry.body and identity not in known:
                new.setdefault(identity, entry)
        if not new:
            return Written((), 0)
        now = datetime.now(UTC)
        self._rotate_if_due(now)
        parts = _lines(new, now.isoformat(timespec="microseconds"))
        try:
            for start in range(0, len(parts), _PARTS_PER_WRITE):
                self._write(parts[start : start + _PARTS_PER_WRITE])
        except OSError as fault:
            raise self.undone(fault) from fault
        self._begun_at = self._begun_at or now
        return Written(new.keys(), sum(map(len, parts)))

    def _write(self, parts: Sequence[bytes | memoryview]) -> None:
        written = os.writev(self._file, parts)
        if written == sum(map(len, parts)):
            return
        left = deque[memoryview](memoryview(part) for part in parts)
        while left:
            while left and written >= len(left[0]):
                written -= len(left.popleft())
            if written:
                left[0] = left[0][written:]
            written = os.writev(self._file, left) if left else 0

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            message = f"The log {self.folder} cannot be written: {fault.strerror}."
            raise ClewError(message, hint="Choose another folder with --home DIR or CLEW_HOME.") from fault

    def _take_lock(self, lock: IO[str]) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            message = f"Another process is writing to the log {self.folder}."
            raise LogHeldError(message, hint="Stop it, or use another home with --home DIR.") from fault

    def _open_last_segment(self) -> None:
        found = segments(self.folder)
        self._open(found[-1].base if found else 0)

    def _open(self, base: int) -> None:
        path = segment_path(self.folder, base)
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        try:
            size = whole_lines_size(path)
            os.ftruncate(file, size)
            _sync_folder(self.folder)
        except OSError:
            os.close(file)
            raise
        self._base, self._file, self._size = base, file, size
        self._begun_at = begun_at(path)

    def _rotate_if_due(self, now: datetime) -> None:
        is_full = self._size >= self.segment_bytes
        if self._size and (is_full or (self._begun_at is not None and now - self._begun_at >= self.segment_age)):
            before = self._file
            # Only when the next one is there: whoever cannot open it must not write to a file that is closed.
            with self._refusals():
                self._open(self.position)
            os.close(before)

    def _remember(self, identities: Iterable[str]) -> None:
        self._recent.update(dict.fromkeys(identities))
        while len(self._recent) > _REMEMBERED_EVENTS:
            self._recent.popitem(last=False)

    def _remember_tail(self) -> None:
        oldest = self.position - _REMEMBERED_BYTES
        for segment in segments(self.folder):
            if segment.end <= max(oldest, segment.base):
                continue
            part = Range(str(segment.path), segment.base, max(oldest, segment.base), segment.end)
            self._remember(identity_of(text) for _, text in read_lines(part))


def _lines(entries: Mapping[str, Entry], now: str) -> list[bytes | memoryview]:
    """The parts of lines: a large event is not copied for it, and those of one sender begin alike."""
    heads: dict[tuple[Stream, str], bytes] = {}
    parts: list[bytes | memoryview] = []
    for identity, entry in entries.items():
        if not entry.is_json:
            encoded = base64.b64encode(entry.body).decode()
            line = Line(now, entry.stream, entry.source, identity, encoded=encoded)
            parts += (msgspec.json.encode(line), b"\n")
            continue
        sender = entry.stream, entry.source
        head = heads.get(sender)
        if head is None:
            head = heads[sender] = msgspec.json.encode(Line(now, *sender))[:-1] + BEFORE_ID
        parts += (b'%s%s"%s' % (head, identity.encode(), BEFORE_EVENT), entry.body, b"}\n")
    return parts


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
