"""Files of events into the log: a notebook's streams, or any NDJSON that was kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from clew.collector.appender import Appender
from clew.collector.event_files import ARCHIVES, event_files, event_lines
from clew.collector.log import LogWriter, Received
from clew.errors import ClewError
from clew.events.stream import STREAM_FILES, Stream

_POSITIONS = "intake.json"
# Lines are gathered until they make up this much, never until they are so many: an event may be 10 MB.
_BYTES_PER_APPEND = 4 << 20

# Bytes done, bytes there are, events so far.
Tell = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Taken:
    """How many lines were read, and how many of them were new to the log."""

    read: int
    stored: int


@dataclass
class _Place:
    """How far a file was read."""

    bytes: int = 0

    def move(self, to: int) -> None:
        self.bytes = to


class _Shape(Struct):
    event_type: str | None = None
    eventTime: msgspec.Raw = msgspec.Raw()  # noqa: N815  # the wire's name


_decode_shape = msgspec.json.Decoder(_Shape).decode
_decode_positions = msgspec.json.Decoder(dict[str, int]).decode


def stream_of(body: bytes) -> Stream:
    """Tell by its shape which stream an event belongs to; what cannot be told is taken for OpenLineage."""
    try:
        shape = _decode_shape(body)
    except (msgspec.DecodeError, RecursionError):
        return Stream.OPENLINEAGE
    if bytes(shape.eventTime) or shape.event_type is None:
        return Stream.OPENLINEAGE
    return Stream.DATAFRAME if shape.event_type == "dataframe_lineage" else Stream.RUNTIME


def take_streams(folder: Path, log: LogWriter | Appender) -> Taken:
    """Append what notebook sessions have written since the last time."""
    positions = _read_positions(log.folder)
    paths = [path for name in STREAM_FILES for path in sorted(folder.glob(f"*/{name}"))]
    taken = [_take_grown(path, folder, log, positions) for path in paths]
    return Taken(sum(one.read for one in taken), sum(one.stored for one in taken))


def waiting_in_streams(folder: Path, log: Path) -> int:
    """How many bytes of notebook sessions are not in the log yet."""
    positions = _read_positions(log)
    paths = [path for name in STREAM_FILES for path in folder.glob(f"*/{name}")]
    return sum(max(0, path.stat().st_size - positions.get(path.relative_to(folder).as_posix(), 0)) for path in paths)


def take_files(paths: list[Path], log: LogWriter, tell: Tell = lambda *_: None) -> Taken:
    """Append the events of NDJSON files, plain, gzip or zstd, and of folders of them."""
    read = stored = done = 0
    files = list(event_files(paths))
    total = sum(path.stat().st_size for path in files)
    for path in files:
        place = _Place()
        for lines in _groups(event_lines(path, place.move)):
            read += len(lines)
            stored += log.append(Received(_stream(path, line), path.name, _body(line)) for line in lines)
            tell(done + place.bytes, total, read)
        done += path.stat().st_size
    return Taken(read, stored)


def _take_grown(path: Path, folder: Path, log: LogWriter | Appender, positions: dict[str, int]) -> Taken:
    source = path.relative_to(folder).as_posix()
    read = stored = 0
    with path.open("rb") as file:
        positions[source] = file.seek(_position(positions.get(source, 0), file))
        for lines in _groups(line for line in file if line.endswith(b"\n")):
            events = [line for line in lines if line.strip()]
            read += len(events)
            stored += log.append(Received(STREAM_FILES[path.name], source, _body(line)) for line in events)
            positions[source] += sum(map(len, lines))
            # Written after the append: a crash in between repeats lines, and the log knows those by their bytes.
            _write_positions(log.folder, positions)
    return Taken(read, stored)


def _position(known: int, file: IO[bytes]) -> int:
    """Where to go on. A file that has become shorter is another file: all of it is new."""
    return known if known <= os.fstat(file.fileno()).st_size else 0


def _body(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _groups(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    try:
        for line in lines:
            group.append(line)
            size += len(line)
            if size >= _BYTES_PER_APPEND:
                yield group
                group, size = [], 0
    except ClewError:
        # What was sound before the damage counts.
        if group:
            yield group
        raise
    if group:
        yield group


def _stream(path: Path, body: bytes) -> Stream:
    name = path.stem if path.suffix in ARCHIVES else path.name
    return STREAM_FILES.get(name) or stream_of(body)


def _read_positions(folder: Path) -> dict[str, int]:
    try:
        return _decode_positions((folder / _POSITIONS).read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        # Lost, so all is read again: what the log or the lake knows already is not doubled.
        return {}


def _write_positions(folder: Path, positions: dict[str, int]) -> None:
    path = folder / _POSITIONS
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(positions)))
    temporary.replace(path)
