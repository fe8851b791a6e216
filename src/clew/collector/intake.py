"""Files of events into the log: a notebook's streams, or any NDJSON that was kept."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from clew.collector.log import LogWriter, Received
from clew.errors import ClewError, UsageError
from clew.events.stream import STREAM_FILES, Stream

_POSITIONS = "intake.json"
# Lines are gathered until they make up this much, never until they are so many: an event may be 10 MB.
_BYTES_PER_APPEND = 4 << 20
_EVENT_FILES = ("*.jsonl", "*.ndjson", "*.jsonl.gz", "*.ndjson.gz")


@dataclass(frozen=True)
class Taken:
    """How many lines were read, and how many of them were new to the log."""

    read: int
    stored: int


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


def take_streams(folder: Path, log: LogWriter) -> Taken:
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


def take_files(paths: list[Path], log: LogWriter) -> Taken:
    """Append the events of NDJSON files, plain or gzip, and of folders of them."""
    read = stored = 0
    for path in list(_event_files(paths)):
        for lines in _groups(_lines(path)):
            read += len(lines)
            stored += log.append(Received(_stream(path, line), path.name, _body(line)) for line in lines)
    return Taken(read, stored)


def _take_grown(path: Path, folder: Path, log: LogWriter, positions: dict[str, int]) -> Taken:
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
    for line in lines:
        group.append(line)
        size += len(line)
        if size >= _BYTES_PER_APPEND:
            yield group
            group, size = [], 0
    if group:
        yield group


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield from (line for line in file if line.strip())
    except (OSError, EOFError, zlib.error) as fault:
        reason = getattr(fault, "strerror", None) or fault
        hint = "What was read before is stored. Mend the file and take it in again: nothing is doubled."
        raise ClewError(f"{path} cannot be read: {reason}.", hint=hint) from fault


def _event_files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for pattern in _EVENT_FILES for file in path.rglob(pattern))
        elif path.is_file():
            yield path
        else:
            hint = "Name NDJSON files of events, or a folder of them."
            raise UsageError(f"There is no file or folder {path}.", hint=hint)


def _stream(path: Path, body: bytes) -> Stream:
    return STREAM_FILES.get(path.name) or stream_of(body)


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
