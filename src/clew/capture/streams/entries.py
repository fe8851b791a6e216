"""Entries of the kernel's log: what happened, in few bytes, from which the three streams are made elsewhere.

Each is one line of JSON. Frames are named by numbers and described once, columns likewise.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from clew.capture.records import Kind

# A version by its number, a column of it, and how it is depended on.
Dependency: TypeAlias = tuple[int, Any, int]
# Columns by their types, five items for each: the type, its bytes in a row, and the places as a range (start, stop,
# step) or as a list and twice None. All in one row, since frames have many.
Blocks: TypeAlias = list[str | int | list[int] | None]


class Failure(NamedTuple):
    """An exception in its own words, with the frames of the user's code only."""

    error_type: str
    message: str
    traceback: str


class SessionStarted(Struct, frozen=True, array_like=True, tag="session"):
    """A notebook begins."""

    moment: float
    notebook: str
    session_id: str
    run_id: str
    engine: str


class CellStarted(Struct, frozen=True, array_like=True, tag="cell"):
    """A cell starts; `file` and `first_line` are what its code objects say of where it stands."""

    moment: float
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


class SourcePart(Struct, frozen=True, array_like=True, tag="part"):
    """Lines of a file that are a cell of their own."""

    file: str
    text: str
    first: int
    last: int


class Labels(Struct, frozen=True, array_like=True, gc=False):
    """The labels of some columns."""

    number: int
    labels: list[Any]


class Version(Struct, frozen=True, array_like=True, gc=False):
    """One state of one frame, or a dataset outside."""

    number: int
    frame: int
    object_id: int
    columns: int
    index_names: list[Any]
    shape: tuple[int, int] | None
    blocks: Blocks | None
    # Where it was measured; else it follows from the blocks.
    bytes: int | None
    dataset: tuple[str, str] | None
    repeats: int | None


class Recorded(Struct, frozen=True, array_like=True, gc=False):
    """One operation. Without a `source`, `fields` are all of its edges; with one, what differs from its columns."""

    method: str
    kind: Kind
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


class Repeated(Struct, frozen=True, array_like=True, gc=False):
    """A loop went on after its operation was told: its place among those of the cell, and its sums by now."""

    place: int
    count: int
    duration: float
    overhead: float


class CellGoesOn(Struct, frozen=True, array_like=True, tag="so far"):
    """What a cell that still runs did since it last told, and what of it was repeated since."""

    moment: float
    run_id: str
    labels: list[Labels]
    versions: list[Version]
    records: list[Recorded]
    repeated: list[Repeated]


class CellEnded(Struct, frozen=True, array_like=True, tag="end"):
    """A cell ended, with what it did that was not told before, and the variables that hold frames now."""

    moment: float
    run_id: str
    duration: float
    memory_mb: float
    is_stopped: bool
    failure: Failure | None
    engine: str
    bound: dict[str, int]
    labels: list[Labels]
    versions: list[Version]
    records: list[Recorded]
    metrics: list[tuple[int, dict[str, Any]]]


class SessionEnded(Struct, frozen=True, array_like=True, tag="close"):
    """Nothing more comes."""

    moment: float


Entry: TypeAlias = SessionStarted | CellStarted | SourcePart | CellGoesOn | CellEnded | SessionEnded

_encoder = msgspec.json.Encoder(enc_hook=str)
_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def encode_entry(entry: Any) -> bytes:
    """An entry, or a part of one, as JSON; what JSON does not know is written as text."""
    return _encoder.encode(entry)


def decode_entry(line: bytes) -> Entry:
    """The entry of a line."""
    return _decoder.decode(line)
