"""Entries of the kernel log: a compact form that the worker expands to the three event streams.

Each is one line of JSON. Frame versions and label lists are written once and referenced by number.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from clew.capture.records import OperationType

# Version number, column and transformation flags.
Dependency: TypeAlias = tuple[int, Any, int]
# Flat list with five items per type: its name, bytes per row, and the column positions as start, stop and step of a
# range or as a list and twice None.
Blocks: TypeAlias = list[str | int | list[int] | None]


class CellFailure(NamedTuple):
    """An exception with its redacted message and the traceback of user code."""

    error_type: str
    message: str
    traceback: str


class SessionStarted(Struct, frozen=True, array_like=True, tag="session"):
    """Start of a session."""

    timestamp: float
    notebook: str
    session_id: str
    run_id: str
    engine: str


class CellStarted(Struct, frozen=True, array_like=True, tag="cell"):
    """Start of a cell; `file` and `first_line` are those of its code object."""

    timestamp: float
    run_id: str
    cell_id: str
    source: str
    name: str | None
    index: int | None
    defines: list[str]
    memory_mb: float
    file: str | None
    first_line: int | None
    engine: str


class SetupCellSource(Struct, frozen=True, array_like=True, tag="setup_cell"):
    """Line range of a file that is the setup cell."""

    file: str
    text: str
    first: int
    last: int


class LabelsEntry(Struct, frozen=True, array_like=True, gc=False):
    """A numbered list of column labels."""

    number: int
    labels: list[Any]


class VersionEntry(Struct, frozen=True, array_like=True, gc=False):
    """A frame version or an external dataset."""

    number: int
    frame: int
    object_id: int
    columns: int
    index_names: list[Any]
    shape: tuple[int, int] | None
    blocks: Blocks | None
    # Set if measured, else computed from the blocks.
    bytes: int | None
    dataset: tuple[str, str] | None
    first_iteration: int | None


class OperationEntry(Struct, frozen=True, array_like=True, gc=False):
    """One operation. Without `source`, `fields` has all edges; with it, only those that differ from identity."""

    method: str
    kind: OperationType
    is_module_function: bool
    position: tuple[str, int, int, int, int] | None
    started: float
    duration: float
    overhead: float
    count: int
    error: tuple[str, str] | None
    output: int | None
    parents: list[int]
    read_from: int | None
    source: int | None
    flags: int
    fields: list[tuple[Any, list[Dependency]]]
    rows: list[Dependency]
    written_types: list[tuple[Any, str]] | None


class RepeatEntry(Struct, frozen=True, array_like=True, gc=False):
    """New totals of an operation already logged: its index in the cell, count, duration and overhead."""

    index: int
    count: int
    duration: float
    overhead: float


class CellProgress(Struct, frozen=True, array_like=True, tag="progress"):
    """New and repeated operations of a running cell."""

    timestamp: float
    run_id: str
    labels: list[LabelsEntry]
    versions: list[VersionEntry]
    records: list[OperationEntry]
    repeated: list[RepeatEntry]


class CellEnded(Struct, frozen=True, array_like=True, tag="end"):
    """End of a cell, with the operations not logged yet and the variables that hold frames."""

    timestamp: float
    run_id: str
    duration: float
    memory_mb: float
    is_stopped: bool
    failure: CellFailure | None
    engine: str
    bound: dict[str, int]
    labels: list[LabelsEntry]
    versions: list[VersionEntry]
    records: list[OperationEntry]
    metrics: list[tuple[int, dict[str, Any]]]


class SessionEnded(Struct, frozen=True, array_like=True, tag="close"):
    """End of a session."""

    timestamp: float


Entry: TypeAlias = SessionStarted | CellStarted | SetupCellSource | CellProgress | CellEnded | SessionEnded

_encoder = msgspec.json.Encoder(enc_hook=str)
_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def encode_entry(entry: Any) -> bytes:
    """Encode an entry or a part of one as JSON; unsupported types are written as text."""
    return _encoder.encode(entry)


def decode_entry(line: bytes) -> Entry:
    """Decode a line."""
    return _decoder.decode(line)
