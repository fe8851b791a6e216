"""The log as files: segments named by the position of their first byte, one line per event.

A position counts bytes from the start of the log, over all segments. An event's position is its sequence number:
unique, in the order received, and known to reader and writer without a counter.
"""

from __future__ import annotations

import base64
import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Raw, Struct, field

from clew.events.identity import ID_DIGITS, event_id
from clew.events.stream import Stream

SUFFIX = ".ndjson"
_DIGITS = 20
_TAIL_BYTES = 1 << 16
# What has been read of a mapped file stays in the process's memory until it is let go.
_LET_GO_BYTES = 8 << 20
# A line begins with its time, and an event may be too large to be read for it.
_HEAD_BYTES = 64
_AT = re.compile(rb'\{"at":"([^"]+)"')
BEFORE_ID = b',"id":"'
_ID = re.compile(rb"[0-9a-f]{%d}" % ID_DIGITS)
BEFORE_EVENT = b',"event":'
_BEFORE_OBJECT = BEFORE_EVENT + b"{"
_WHOLE_HEAD_BYTES = 1024
_UNKNOWN_TIME = "1970-01-01T00:00:00+00:00"
_BY_HAND = "log"


class Line(Struct, omit_defaults=True):
    """One line: when and whence an event came and its id, then the event itself, as received.

    `bytes` (base64) stands in for `event` where what came is no JSON and could not be embedded. The `id` is made of the
    event's bytes; whoever writes a line by hand may leave it out.
    """

    at: str
    stream: str
    source: str
    id: str | None = None
    event: Raw = Raw(b"null")
    encoded: str | None = field(default=None, name="bytes")

    @property
    def body(self) -> bytes:
        """The event's own bytes."""
        return bytes(self.event) if self.encoded is None else base64.b64decode(self.encoded)

    @property
    def document(self) -> bytes | Raw:
        """The same where they stand in the line, if they do."""
        return self.event if self.encoded is None else self.body


@dataclass(frozen=True, order=True)
class Segment:
    """A file of the log; it holds the positions from `base` up to `end`."""

    base: int
    end: int
    path: Path


@dataclass(frozen=True)
class Range:
    """Part of a segment: the lines that start at or after `start` and before `end`."""

    path: str
    base: int
    start: int
    end: int


_decode_line = msgspec.json.Decoder(Line).decode


def decode_line(text: bytes) -> Line:
    """Open a line; one that no writer wrote is itself an event, received nobody knows when."""
    try:
        line = _decode_line(text)
        datetime.fromisoformat(line.at)
        base64.b64decode(line.encoded or "")
        if line.id is not None and not _ID.fullmatch(line.id.encode()):
            line.id = None
    except (ValueError, RecursionError, msgspec.DecodeError):
        return Line(_UNKNOWN_TIME, Stream.OPENLINEAGE, _BY_HAND, encoded=base64.b64encode(text).decode())
    return line


def identity_of(text: bytes) -> str:
    """The id of the event of a line."""
    line = decode_line(text)
    return line.id or event_id(line.body)


def written_line(text: bytes) -> Line | None:
    """A line that looks as the writer writes it; None if `decode_line` must tell.

    The event is not looked at: that the line is what it seems is known when its event, an object, could be opened.
    To go through its bytes for that alone costs as much as to open it.
    """
    place = text.find(_BEFORE_OBJECT, 0, _WHOLE_HEAD_BYTES)
    if place < 0 or not text.endswith(b"}}"):
        return None
    # Events that came together have all in common that stands before their ids.
    before, _, rest = text[:place].partition(BEFORE_ID)
    head = _head(before)
    if head is None or (rest and not (rest.endswith(b'"') and _ID.fullmatch(rest, 0, len(rest) - 1))):
        return None
    # A view: the event may have megabytes.
    return Line(*head, rest[:-1].decode() or None, Raw(memoryview(text)[place + len(BEFORE_EVENT) : -1]))


@lru_cache
def _head(text: bytes) -> tuple[str, str, str] | None:
    """Time, stream and source, which events that came together share."""
    line = decode_line(text + b"}")
    return None if line.encoded is not None else (line.at, line.stream, line.source)


def segment_path(folder: Path, base: int) -> Path:
    """The file whose first byte is position `base`."""
    return folder / f"{base:0{_DIGITS}d}{SUFFIX}"


def segments(folder: Path) -> list[Segment]:
    """All segments in order, each up to its last whole line."""
    paths = sorted(folder.glob("[0-9]" * _DIGITS + SUFFIX))
    # Only the last can have a torn tail: the writer cuts it off before it starts another.
    sizes = [*(path.stat().st_size for path in paths[:-1]), *map(whole_lines_size, paths[-1:])]
    return [Segment(int(path.stem), int(path.stem) + size, path) for path, size in zip(paths, sizes, strict=True)]


def whole_lines_size(path: Path) -> int:
    """Bytes up to and with the last line break: a torn tail was never acknowledged."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while size > 0:
            start = max(0, size - _TAIL_BYTES)
            file.seek(start)
            line_break = file.read(size - start).rfind(b"\n")
            if line_break >= 0:
                return start + line_break + 1
            size = start
    return 0


def begun_at(path: Path) -> datetime | None:
    """When the first event of a segment was received; None where nobody knows."""
    with path.open("rb") as file:
        found = _AT.match(file.read(_HEAD_BYTES))
    try:
        return None if found is None else datetime.fromisoformat(found[1].decode())
    except ValueError:
        return None


def end_position(folder: Path) -> int:
    """The position at which the next event will stand."""
    found = segments(folder)
    return found[-1].end if found else 0


def ranges(folder: Path, start: int, end: int, target_bytes: int) -> list[Range]:
    """Cut the positions from `start` to `end` into parts of about `target_bytes`, never across segments."""
    parts = []
    for segment in segments(folder):
        low, high = max(start, segment.base), min(end, segment.end)
        parts += [
            Range(str(segment.path), segment.base, cut, min(cut + target_bytes, high))
            for cut in range(low, high, target_bytes)
        ]
    return parts


def read_lines(part: Range) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each line that starts within the range."""
    with Path(part.path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        offset = _line_start(text, part.start - part.base)
        stop = part.end - part.base
        let_go = offset - offset % mmap.PAGESIZE
        while offset < stop:
            line_break = text.find(b"\n", offset)
            if line_break < 0:
                return
            yield part.base + offset, text[offset:line_break]
            offset = line_break + 1
            if offset - let_go >= _LET_GO_BYTES:
                text.madvise(mmap.MADV_DONTNEED, let_go, offset - let_go)
                let_go = offset - offset % mmap.PAGESIZE


def _line_start(text: mmap.mmap, offset: int) -> int:
    if offset == 0 or text[offset - 1 : offset] == b"\n":
        return offset
    line_break = text.find(b"\n", offset)
    return len(text) if line_break < 0 else line_break + 1
