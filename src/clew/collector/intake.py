"""Import of event files into the log: notebook streams and NDJSON files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from clew.collector.appender import Appender
from clew.collector.event_files import COMPRESSED_SUFFIXES, find_event_files, read_event_lines
from clew.collector.log import IncomingEvent, LogWriter
from clew.errors import ClewError
from clew.events.stream import STREAM_FILES, Stream

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


def guess_stream(body: bytes) -> Stream:
    """Guess the stream of an event from its fields; the default is OpenLineage."""
    try:
        header = _decode_header(body)
    except (msgspec.DecodeError, RecursionError):
        return Stream.OPENLINEAGE
    if bytes(header.eventTime) or header.event_type is None:
        return Stream.OPENLINEAGE
    return Stream.DATAFRAME if header.event_type == "dataframe_lineage" else Stream.RUNTIME


def import_streams(folder: Path, log: LogWriter | Appender) -> ImportResult:
    """Append events that notebook sessions have written since the last call."""
    positions = _read_positions(log.folder)
    paths = [path for name in STREAM_FILES for path in sorted(folder.glob(f"*/{name}"))]
    results = [_import_tail(path, folder, log, positions) for path in paths]
    return ImportResult(sum(result.read for result in results), sum(result.stored for result in results))


def pending_stream_bytes(folder: Path, log: Path) -> int:
    """Return the bytes of notebook streams that are not in the log yet."""
    positions = _read_positions(log)
    paths = [path for name in STREAM_FILES for path in folder.glob(f"*/{name}")]
    return sum(max(0, path.stat().st_size - positions.get(path.relative_to(folder).as_posix(), 0)) for path in paths)


def import_files(paths: list[Path], log: LogWriter, on_progress: OnImportProgress = lambda *_: None) -> ImportResult:
    """Append the events of NDJSON files (plain, gzip or zstd) and folders."""
    read = stored = done = 0
    files = list(find_event_files(paths))
    total = sum(path.stat().st_size for path in files)
    for path in files:
        offset = _FileOffset()
        for lines in _batches(read_event_lines(path, offset.move)):
            read += len(lines)
            stored += log.append(IncomingEvent(_stream_for(path, line), path.name, _body(line)) for line in lines)
            on_progress(done + offset.bytes, total, read)
        done += path.stat().st_size
    return ImportResult(read, stored)


def _import_tail(path: Path, folder: Path, log: LogWriter | Appender, positions: dict[str, int]) -> ImportResult:
    source = path.relative_to(folder).as_posix()
    read = stored = 0
    with path.open("rb") as file:
        positions[source] = file.seek(_resume_position(positions.get(source, 0), file))
        for lines in _batches(line for line in file if line.endswith(b"\n")):
            events = [line for line in lines if line.strip()]
            read += len(events)
            stored += log.append(IncomingEvent(STREAM_FILES[path.name], source, _body(line)) for line in events)
            positions[source] += sum(map(len, lines))
            # Saved after the append: lines repeated after a crash are deduplicated by the log.
            _write_positions(log.folder, positions)
    return ImportResult(read, stored)


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
    except (FileNotFoundError, msgspec.DecodeError):
        # Read everything again: the log and the lake deduplicate.
        return {}


def _write_positions(folder: Path, positions: dict[str, int]) -> None:
    path = folder / _POSITIONS_FILE
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(positions)))
    temporary.replace(path)
