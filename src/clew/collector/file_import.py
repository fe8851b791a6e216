"""Read event files, and import them and notebook event files into the log."""

from __future__ import annotations

import asyncio
import gzip
import io
import logging
import os
import re
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, BinaryIO, Final, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from clew.collector.group_commit import Appender
from clew.data_dir import replace_file
from clew.errors import ClewError, UsageError
from clew.eventlog.staging import list_published
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.decoding import Document, RejectedError, RejectionReason
from clew.events.openlineage import ANNOTATIONS_NAME
from clew.events.streams import STREAM_FILES, Stream, validate_event

_EXTENSIONS = ("jsonl", "ndjson")
COMPRESSED_SUFFIXES: Final = (".gz", ".zst")
_PATTERNS = tuple(f"*.{kind}{archive}" for kind in _EXTENSIONS for archive in ("", *COMPRESSED_SUFFIXES))
EVENT_FILE_SUFFIXES: Final = tuple(pattern.removeprefix("*") for pattern in _PATTERNS)
# Small: a frame can expand a thousandfold.
_BYTES_PER_READ = 16 << 10

OnBytesRead = Callable[[int], None]


def find_event_files(paths: list[Path]) -> Iterator[Path]:
    """Yield the given files, and the event files below the given folders."""
    for path in paths:
        if path.is_dir():
            yield from sorted(file for pattern in _PATTERNS for file in path.rglob(pattern))
        elif path.is_file():
            yield path
        else:
            hint = "Pass NDJSON or JSON event files, or a folder of NDJSON files."
            raise UsageError(f"No such file or folder: {path}.", hint=hint)


class EventAppender(Protocol):
    """Where events are appended: the event log, a running collector, or a Kafka topic."""

    @property
    def folder(self) -> Path:
        """Folder of the log."""

    def append(self, events: Iterable[IncomingEvent]) -> int:
        """Store events and return the number of those that were new."""


class UnreadableEventsError(ClewError):
    """A file or an object that is damaged or cannot be read."""


class FileEvent(NamedTuple):
    """The bytes of an event of a file, and the number of its first line."""

    line: int
    body: bytes


def read_event_file(path: Path, on_bytes_read: OnBytesRead = lambda _: None) -> Iterator[FileEvent]:
    """Yield the events of a file: lines of NDJSON, items of a JSON list, or objects on several lines.

    `on_bytes_read` receives the file position.
    """
    count = 0
    try:
        with path.open("rb") as raw, _decompress(path, raw) as file:
            for event in _split_events(FileEvent(*item) for item in enumerate(file, start=1)):
                count += 1
                yield event
                on_bytes_read(raw.tell())
    except _READ_ERRORS as error:
        raise _unreadable(str(path), error, count) from error


def read_event_object(name: str, chunks: Iterator[bytes]) -> Iterator[FileEvent]:
    """Yield the events of an object, in the same formats; compression is recognised by its first bytes."""
    count, raw = 0, io.BufferedReader(_ChunkReader(chunks))
    try:
        for event in _split_events(FileEvent(*item) for item in enumerate(_decompress_by_magic(raw), start=1)):
            count += 1
            yield event
    except _READ_ERRORS as error:
        raise _unreadable(name, error, count) from error


_READ_ERRORS: Final = (OSError, EOFError, zlib.error)
_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def _decompress_by_magic(raw: io.BufferedReader[_ChunkReader]) -> Iterable[bytes]:
    magic = raw.peek(len(_ZSTD_MAGIC))
    if magic.startswith(_GZIP_MAGIC):
        return gzip.GzipFile(fileobj=raw)
    return io.BufferedReader(_ChunkReader(_read_zstd(raw))) if magic.startswith(_ZSTD_MAGIC) else raw


def _unreadable(name: str, error: BaseException, count: int) -> UnreadableEventsError:
    reason = getattr(error, "strerror", None) or error
    hint = "They are stored. Fix the file and import it again; duplicates are skipped."
    return UnreadableEventsError(f"Cannot read {name}: {reason}. Events read before the error: {count:,}.", hint=hint)


def _split_events(lines: Iterator[FileEvent]) -> Iterator[FileEvent]:
    lines = (line for line in lines if line.body.strip())
    first, second = next(lines, None), next(lines, None)
    head = [line for line in (first, second) if line is not None]
    if first is None or not _is_multi_line(first.body, b"" if second is None else second.body):
        yield from head
        yield from lines
        return
    # Blank lines between are restored, so that positions in the text are those in the file.
    text, number = bytearray(), first.line
    for line in chain(head, lines):
        text += b"\n" * (line.line - number) + _body(line.body)
        number = line.line
    yield from _split_documents(bytes(text), first.line)


def _is_multi_line(first: bytes, second: bytes) -> bool:
    """Return whether a file is not NDJSON: it starts with a list, or with an object that its first line does not end.

    If the second line is an object, the file is NDJSON, and its first line is damaged.
    """
    start = first.lstrip()[:1]
    return start == b"[" or (start == b"{" and not _is_object(first) and not _is_object(second))


def _is_object(line: bytes) -> bool:
    try:
        return line.lstrip().startswith(b"{") and bool(_decode_any(line))
    except (msgspec.DecodeError, RecursionError):
        return False


_decode_any = msgspec.json.Decoder(msgspec.Raw).decode
_STRINGS_AND_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)


def _split_documents(text: bytes, first_line: int) -> Iterator[FileEvent]:
    """Yield the outermost objects, also within lists, and any text between them; they need not be valid JSON."""
    line, counted = first_line, 0
    for start, end in _document_spans(text):
        line, counted = line + text.count(b"\n", counted, start), start
        yield FileEvent(line, text[start:end])


def _document_spans(text: bytes) -> Iterator[tuple[int, int]]:
    depth = start = end = 0
    for match in _STRINGS_AND_BRACKETS.finditer(text):
        token = match[0]
        if token == b"{" or (token == b"[" and depth):
            if not depth:
                yield from _stray_span(text, end, match.start())
                start = match.start()
            depth += 1
        elif token in b"]}" and depth:
            depth -= 1
            if not depth:
                end = match.end()
                yield start, end
        elif token in b"[]":
            yield from _stray_span(text, end, match.start())
            end = match.end()
    yield from _stray_span(text, start if depth else end, len(text))


def _stray_span(text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the text between two documents, if it is more than a comma."""
    stray = text[start:end]
    if stray.strip(b", \t\r\n"):
        yield start + len(stray) - len(stray.lstrip(b", \t\r\n")), start + len(stray.rstrip())


def _decompress(path: Path, raw: BinaryIO) -> AbstractContextManager[Iterable[bytes]]:
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    return io.BufferedReader(_ChunkReader(_read_zstd(raw))) if path.suffix == ".zst" else raw


class _ChunkReader(io.RawIOBase):
    """File object over an iterator of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _read_zstd(raw: BinaryIO | io.BufferedReader[_ChunkReader]) -> Iterator[bytes]:
    """Decompress zstd frames. The library's reader does not detect a truncated file."""
    import zstandard

    decompressor, frame = zstandard.ZstdDecompressor(max_window_size=1 << 31), None
    try:
        while data := raw.read(_BYTES_PER_READ):
            while data:
                frame = frame or decompressor.decompressobj()
                yield frame.decompress(data)
                data, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from error
    if frame is not None:
        raise EOFError("the last zstd frame is incomplete")


_POSITIONS_FILE = "intake.json"
# Lines are batched by size, not by number: an event can have 10 MB.
_BYTES_PER_APPEND = 4 << 20

# Bytes read, total bytes, events read.
OnImportProgress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class ImportResult:
    """Number of events read, and of those that were new to the log."""

    read: int
    stored: int


@dataclass
class _FileOffset:
    """Read position in a file."""

    bytes: int = 0

    def move(self, to: int) -> None:
        self.bytes = to


class _EventHeader(Struct):
    event_type: str | None = None
    eventTime: msgspec.Raw = msgspec.Raw()  # noqa: N815  # the wire's name


_decode_header = msgspec.json.Decoder(_EventHeader).decode
_decode_positions = msgspec.json.Decoder(dict[str, int]).decode


_RESERVED = ANNOTATIONS_NAME.encode()


def guess_stream(body: Document) -> Stream:
    """Guess the stream of an event from its fields; the default is OpenLineage."""
    try:
        header = _decode_header(body)
    except (msgspec.DecodeError, RecursionError):
        return Stream.OPENLINEAGE
    if bytes(header.eventTime) or header.event_type is None:
        return Stream.OPENLINEAGE
    return Stream.DATAFRAME if header.event_type == "dataframe_lineage" else Stream.RUNTIME


def import_streams(folder: Path, log: EventAppender) -> ImportResult:
    """Append events that notebook sessions have written since the last call."""
    positions = _read_positions(log.folder)
    paths = [path for name in STREAM_FILES for path in sorted(folder.glob(f"*/{name}"))]
    results = [_import_tail(path, folder, log, positions) for path in paths]
    return ImportResult(sum(result.read for result in results), sum(result.stored for result in results))


def adopt_published(log: LogWriter | Appender) -> None:
    """Append the segments that an import has published since the last call."""
    for path in list_published(log.folder):
        log.adopt(path)


def pending_stream_bytes(folder: Path, log: Path) -> int:
    """Return the bytes of notebook streams that are not in the log yet."""
    positions = _read_positions(log)
    paths = [path for name in STREAM_FILES for path in folder.glob(f"*/{name}")]
    return sum(max(0, path.stat().st_size - positions.get(path.relative_to(folder).as_posix(), 0)) for path in paths)


def forget_stream(folder: str, log: Path) -> None:
    """Remove the read positions of the event files of a session, which are deleted."""
    positions = _read_positions(log)
    kept = {source: position for source, position in positions.items() if not source.startswith(f"{folder}/")}
    if len(kept) < len(positions):
        _write_positions(log, kept)


def import_files(
    paths: list[Path], log: EventAppender, on_progress: OnImportProgress = lambda *_: None
) -> ImportResult:
    """Append the events of NDJSON and JSON files (plain, gzip or zstd) and folders."""
    read = stored = done = 0
    files = list(find_event_files(paths))
    total = sum(path.stat().st_size for path in files)
    for path in files:
        offset = _FileOffset()
        for lines in _batches(event.body for event in read_event_file(path, offset.move)):
            read += len(lines)
            stored += _append(log, (IncomingEvent(_stream_for(path, line), path.name, _body(line)) for line in lines))
            on_progress(done + offset.bytes, total, read)
        done += path.stat().st_size
    return ImportResult(read, stored)


def append_events(log: EventAppender, source: str, bodies: Iterable[bytes]) -> Iterator[ImportResult]:
    """Append events in batches; yield the result of each."""
    for batch in _batches(bodies):
        stored = _append(log, (IncomingEvent(guess_stream(body), source, _body(body)) for body in batch))
        yield ImportResult(len(batch), stored)


def _import_tail(path: Path, folder: Path, log: EventAppender, positions: dict[str, int]) -> ImportResult:
    source = path.relative_to(folder).as_posix()
    read = stored = 0
    with path.open("rb") as file:
        positions[source] = file.seek(_resume_position(positions.get(source, 0), file))
        for lines in _batches(line for line in file if line.endswith(b"\n")):
            events = [line for line in lines if line.strip()]
            read += len(events)
            stored += _append(log, (IncomingEvent(STREAM_FILES[path.name], source, _body(line)) for line in events))
            positions[source] += sum(map(len, lines))
            # Saved after the append: lines repeated after a crash are deduplicated by the log.
            _write_positions(log.folder, positions)
    return ImportResult(read, stored)


def _append(log: EventAppender, events: Iterable[IncomingEvent]) -> int:
    """Append events except those with reserved names."""
    return log.append(event for event in events if not has_reserved_name(event))


def has_reserved_name(event: IncomingEvent) -> bool:
    """Return whether an event uses the name of the annotations, which only clew writes."""
    # JSON may escape any character.
    if event.stream is Stream.OPENLINEAGE and (_RESERVED in event.body or b"\\u" in event.body):
        try:
            validate_event(event.stream, event.body)
        except RejectedError as error:
            if error.reason is RejectionReason.RESERVED_NAME:
                _LOG.warning("skipped an event of %s: %s", event.source, error.detail)
                return True
    return False


def _resume_position(saved: int, file: IO[bytes]) -> int:
    """Return where to continue. A file that is shorter than before was replaced: start at 0."""
    return saved if saved <= os.fstat(file.fileno()).st_size else 0


def _body(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    try:
        for line in lines:
            batch.append(line)
            size += len(line)
            if size >= _BYTES_PER_APPEND:
                yield batch
                batch, size = [], 0
    except ClewError:
        # Import what could be read before the error.
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _stream_for(path: Path, body: bytes) -> Stream:
    name = path.stem if path.suffix in COMPRESSED_SUFFIXES else path.name
    return STREAM_FILES.get(name) or guess_stream(body)


def _read_positions(folder: Path) -> dict[str, int]:
    try:
        return _decode_positions((folder / _POSITIONS_FILE).read_bytes())
    except (OSError, msgspec.DecodeError):
        # Read everything again: the log and the lake deduplicate.
        return {}


def _write_positions(folder: Path, positions: dict[str, int]) -> None:
    replace_file(folder / _POSITIONS_FILE, msgspec.json.format(msgspec.json.encode(positions)))


_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.5


@asynccontextmanager
async def tail_streams(
    folder: Path, appender: Appender, expand_abandoned: Callable[[Path], None]
) -> AsyncIterator[None]:
    """Append events of notebook sessions in a background thread; `expand_abandoned` completes killed sessions."""
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(_POLL_SECONDS):
            try:
                expand_abandoned(folder)
                import_streams(folder, appender)
                adopt_published(appender)
            except (ClewError, OSError) as error:
                # Retried from the same position.
                _LOG.warning("cannot import notebook streams, retrying: %s", error)

    thread = threading.Thread(target=poll, name="clew-notebooks")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        # Not on the event loop, which stores what the thread has read.
        await asyncio.to_thread(thread.join)
