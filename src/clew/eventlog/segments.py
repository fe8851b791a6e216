"""Log segments: files named by the position of their first byte, one line per event.

A position is a byte offset over all segments. An event's position is its sequence number (`seq`): unique, in the order
received, and known without a counter.
"""

from __future__ import annotations

import base64
import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Raw, Struct, field

from clew.events.ids import ID_DIGITS, event_id
from clew.events.streams import Stream

SUFFIX = ".ndjson"
END_FILE = ".end"
_DIGITS = 20
_TAIL_BYTES = 1 << 16
# Pages of a mapped file stay resident until they are released.
_RELEASE_BYTES = 8 << 20
# The timestamp is at the start of a line; the event itself can be large.
_TIME_BYTES = 64
_AT = re.compile(rb'\{"at":"([^"]+)"')
ID_PREFIX = b',"id":"'
_ID = re.compile(rb"[0-9a-f]{%d}" % ID_DIGITS)
_CHECKSUM_PREFIX = b',"crc":"'
EVENT_PREFIX = b',"event":'
BYTES_PREFIX = b',"bytes":'
_OBJECT_PREFIX = EVENT_PREFIX + b"{"
_CHECKSUM_BYTES = len(_CHECKSUM_PREFIX) + 9
_ID_AND_CHECKSUM = re.compile(rb'([0-9a-f]{%d})"(?:,"crc":"([0-9a-f]{8})")?' % ID_DIGITS)
# The head of a record with a checksum, and its end if the rest is damaged.
_CHECKED_HEAD = re.compile(
    rb'\{"at":"[^"]*","stream":"[^"]*","source":"(?:[^"\\]|\\.)*","id":"[0-9a-f]{%d}"(,"crc":"([0-9a-f]{8})"),"(?:event|bytes)":'
    % ID_DIGITS
)
_CHECKSUM = re.compile(rb',"crc":"[0-9a-f]{8}","(?:event|bytes)":')
_MAX_ENDS = 8
_TAIL_CHECKSUM_BYTES = 256
_MAX_HEAD_BYTES = 1024
UNKNOWN_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
UNKNOWN_SOURCE: Final = "log"


class LogRecord(Struct, omit_defaults=True):
    """One line: time, stream, source, id and checksum of an event, then the event as received.

    `bytes` (base64) replaces `event` if it is not JSON. The `id` is a hash of the event's bytes; it is optional in
    lines that were not written by clew. `crc` is the CRC-32 of the line without this member; older lines have none.
    """

    at: str
    stream: str
    source: str
    id: str | None = None
    crc: str | None = None
    event: Raw = Raw(b"null")
    encoded: str | None = field(default=None, name="bytes")

    @property
    def body(self) -> bytes:
        """Bytes of the event."""
        return bytes(self.event) if self.encoded is None else base64.b64decode(self.encoded)

    @property
    def document(self) -> bytes | Raw:
        """Bytes of the event, without a copy if they are part of the line."""
        return self.event if self.encoded is None else self.body


@dataclass(frozen=True, order=True)
class Segment:
    """File of the log with the positions from `base` up to `end`."""

    base: int
    end: int
    path: Path


@dataclass(frozen=True)
class SegmentRange:
    """Lines of a segment that start at or after `start` and before `end`."""

    path: str
    base: int
    start: int
    end: int


class _Checksum(Struct):
    crc: str | None = None


_decode_record = msgspec.json.Decoder(LogRecord).decode
_decode_checksum = msgspec.json.Decoder(_Checksum).decode


def decode_record(text: bytes) -> LogRecord:
    """Decode a line; any other line is itself an event, of unknown time."""
    try:
        record = _decode_record(text)
        datetime.fromisoformat(record.at)
        base64.b64decode(record.encoded or "")
        if record.id is not None and not _ID.fullmatch(record.id.encode()):
            record.id = None
    except (ValueError, RecursionError, msgspec.DecodeError):
        return LogRecord(
            UNKNOWN_TIME.isoformat(), Stream.OPENLINEAGE, UNKNOWN_SOURCE, encoded=base64.b64encode(text).decode()
        )
    return record


def record_event_id(text: bytes) -> str:
    """Return the event id of a line."""
    record = decode_record(text)
    return record.id or event_id(record.body)


def format_head(sender: bytes, identity: bytes, prefix: bytes, body: bytes | memoryview) -> bytes:
    """Format what precedes the body of an event in its line; `sender` are the members before the id."""
    head = b'%s%s%s"' % (sender, ID_PREFIX, identity)
    checksum = crc32(b"}", crc32(body, crc32(prefix, crc32(head))))
    return b'%s%s%08x"%s' % (head, _CHECKSUM_PREFIX, checksum, prefix)


def replace_event(text: bytes, body: bytes) -> bytes:
    """Return a line of the same size with another event under the same id; spaces if there is none, or no room."""
    size, record = len(text), decode_record(text)
    sender = msgspec.json.encode(LogRecord(record.at, record.stream, record.source))[:-1]
    identity = (record.id or event_id(record.body)).encode()
    room = size - len(format_head(sender, identity, EVENT_PREFIX, body)) - 1
    if not body or len(body) > room or record.encoded is not None:
        return b" " * size
    # Within the event, so that the line ends as all others.
    padded = body[:-1].ljust(room - 1) + body[-1:]
    return format_head(sender, identity, EVENT_PREFIX, padded) + padded + b"}"


def is_damaged(text: bytes) -> bool:
    """Return whether a line is not as it was written: its checksum differs, or it is no JSON.

    The writer encodes an event that is not JSON, so that each of its lines is JSON.
    """
    head = _CHECKED_HEAD.match(text)
    if head is not None:
        return not _has_checksum(text, head.start(1), head[2])
    if _CHECKSUM.search(text, 0, _MAX_HEAD_BYTES):
        return True
    try:
        return _decode_checksum(text).crc is not None
    except msgspec.ValidationError:
        # An event without a record, or a record of another writer.
        return False
    except (RecursionError, ValueError):
        return True


def split_damaged(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Split a damaged line into its intact records and the parts between them, each with its offset.

    A line holds several records if the newline between them was damaged.
    """
    heads = [match.start() for match in _CHECKED_HEAD.finditer(text)]
    done = 0
    for index, start in enumerate(heads):
        # An event can contain the head of a record: the next head may not be the end.
        ends = [*(head - 1 for head in heads[index + 1 : index + _MAX_ENDS]), len(text), len(text) - 1][:_MAX_ENDS]
        end = next((end for end in ends if has_checksum(text[start:end])), None) if start >= done else None
        if end is not None:
            if start - 1 > done:
                yield done, text[done : start - 1]
            yield start, text[start:end]
            done = end + 1
    if done < len(text):
        yield done, text[done:]


def read_event_ids(segment_range: SegmentRange) -> Iterator[str]:
    """Yield the event ids of a range, without those of damaged records: their events may be sent again."""
    for _, text in read_lines(segment_range):
        if is_damaged(text):
            yield from (record_event_id(part) for _, part in split_damaged(text) if has_checksum(part))
        else:
            yield record_event_id(text)


def has_checksum(text: bytes) -> bool:
    """Return whether a line has a checksum, and is as it was written."""
    head = _CHECKED_HEAD.match(text)
    return head is not None and _has_checksum(text, head.start(1), head[2])


def _has_checksum(text: bytes, start: int, checksum: bytes) -> bool:
    """Return whether the CRC-32 of a line without the checksum at `start` is as stored."""
    view = memoryview(text)
    return crc32(view[start + _CHECKSUM_BYTES :], crc32(view[:start])) == int(checksum, 16)


def parse_record_fast(text: bytes) -> LogRecord | None:
    """Parse a line in the writer's format; None if it needs `decode_record`.

    The event is not parsed: scanning it would cost as much as decoding it, which validates it later.
    """
    event_start = text.find(_OBJECT_PREFIX, 0, _MAX_HEAD_BYTES)
    if event_start < 0 or not text.endswith(b"}}"):
        return None
    # Events received together share everything before the id.
    before, _, rest = text[:event_start].partition(ID_PREFIX)
    head = _decode_head(before)
    identity = _ID_AND_CHECKSUM.fullmatch(rest)
    if head is None or (rest and identity is None):
        return None
    checksum = None if identity is None else identity[2]
    if checksum is not None and not _has_checksum(text, event_start - _CHECKSUM_BYTES, checksum):
        return None
    # A view: the event can be large.
    event = Raw(memoryview(text)[event_start + len(EVENT_PREFIX) : -1])
    event_hash = None if identity is None else identity[1].decode()
    return LogRecord(*head, event_hash, None if checksum is None else checksum.decode(), event)


@lru_cache
def _decode_head(text: bytes) -> tuple[str, str, str] | None:
    """Return time, stream and source. Cached: events received together share them."""
    record = decode_record(text + b"}")
    return None if record.encoded is not None else (record.at, record.stream, record.source)


def segment_path(folder: Path, base: int) -> Path:
    """Return the path of the segment that starts at position `base`."""
    return folder / f"{base:0{_DIGITS}d}{SUFFIX}"


def segment_base(path: Path) -> int:
    """Return the position of the first byte of a segment."""
    return int(path.stem)


def list_paths(folder: Path) -> list[Path]:
    """Return the paths of all segments in order; anything else than a file is skipped."""
    return sorted(path for path in folder.glob("[0-9]" * _DIGITS + SUFFIX) if path.is_file())


def list_segments(folder: Path) -> list[Segment]:
    """Return all segments in order, each up to its last complete line."""
    paths = list_paths(folder)
    # Only the last segment can have a torn tail: the writer truncates it before starting another.
    sizes = [*(path.stat().st_size for path in paths[:-1]), *map(complete_size, paths[-1:])]
    segments = zip(map(segment_base, paths), sizes, paths, strict=True)
    return [Segment(base, base + size, path) for base, size, path in segments]


def complete_size(path: Path) -> int:
    """Return the size up to the last newline; a torn tail was never acknowledged."""
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


def first_received_at(path: Path) -> datetime | None:
    """Return when the first event of a segment was received, if known."""
    with path.open("rb") as file:
        return received_at(file.read(_TIME_BYTES))


def received_at(text: bytes) -> datetime | None:
    """Return the time at the start of a line, if known."""
    match = _AT.match(text)
    try:
        time = None if match is None else datetime.fromisoformat(match[1].decode())
    except ValueError:
        return None
    return time if time is None or time.tzinfo is not None else time.replace(tzinfo=UTC)


def tail_checksum(folder: Path, position: int) -> int | None:
    """Return the CRC-32 of the last bytes before a position; None if they are not in the log."""
    for path in list_paths(folder):
        stop = position - segment_base(path)
        if 0 < stop <= path.stat().st_size:
            with path.open("rb") as file:
                file.seek(max(0, stop - _TAIL_CHECKSUM_BYTES))
                return crc32(file.read(min(stop, _TAIL_CHECKSUM_BYTES)))
    return None


def read_known_end(folder: Path) -> int:
    """Return the end of the log that its writer recorded last; 0 if it is unknown."""
    try:
        return int((folder / END_FILE).read_bytes())
    except (OSError, ValueError):
        return 0


def end_position(folder: Path) -> int:
    """Return the position of the next event."""
    existing = list_segments(folder)
    return existing[-1].end if existing else 0


def split_ranges(folder: Path, start: int, end: int, target_bytes: int) -> list[SegmentRange]:
    """Split `start` to `end` into ranges of about `target_bytes` within segments."""
    result = []
    for segment in list_segments(folder):
        low, high = max(start, segment.base), min(end, segment.end)
        result += [
            SegmentRange(str(segment.path), segment.base, cut, min(cut + target_bytes, high))
            for cut in range(low, high, target_bytes)
        ]
    return result


def read_lines(segment_range: SegmentRange) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of each line that starts within the range, except those of erased events."""
    with Path(segment_range.path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        offset = _line_start(text, segment_range.start - segment_range.base)
        stop = segment_range.end - segment_range.base
        released = offset - offset % mmap.PAGESIZE
        while offset < stop:
            line_break = text.find(b"\n", offset)
            if line_break < 0:
                # Ranges exclude a torn tail: the newline is damaged.
                line_break = len(text)
            line = text[offset:line_break]
            if not _is_erased(line):
                yield segment_range.base + offset, line
            offset = line_break + 1
            if offset - released >= _RELEASE_BYTES:
                text.madvise(mmap.MADV_DONTNEED, released, offset - released)
                released = offset - offset % mmap.PAGESIZE


def _is_erased(line: bytes) -> bool:
    return line.startswith(b" ") and not line.strip(b" ")


def _line_start(text: mmap.mmap, offset: int) -> int:
    if offset == 0 or text[offset - 1 : offset] == b"\n":
        return offset
    line_break = text.find(b"\n", offset)
    return len(text) if line_break < 0 else line_break + 1
