"""Nodes and adjacency arrays: ids, string table, mapped file."""

from __future__ import annotations

import mmap
import os
import sys
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Self, get_type_hints
from zlib import crc32

import msgspec
from msgspec import Struct

from clew.index.encoding import KEY_SEPARATOR, prefix_end

NodeKind = Literal["dataset", "job"]


class Node(Struct, frozen=True, order=True):
    """A job or a dataset."""

    kind: NodeKind
    namespace: str
    name: str

    @property
    def id(self) -> str:
        """Marquez node id: `dataset:namespace:name`."""
        return f"{self.kind}:{self.namespace}:{self.name}"


class Column(Struct, frozen=True, order=True):
    """A column of a dataset; without a column name, the dataset-level node."""

    namespace: str
    dataset: str
    column: str | None = None

    @property
    def id(self) -> str:
        """Marquez node id: `datasetField:namespace:dataset:column`."""
        if self.column is None:
            return f"dataset:{self.namespace}:{self.dataset}"
        return f"datasetField:{self.namespace}:{self.dataset}:{self.column}"


def node_key(kind: str, namespace: str, name: str) -> str:
    """Return the key of a job or a dataset."""
    return f"{kind}{KEY_SEPARATOR}{namespace}{KEY_SEPARATOR}{name}"


def parse_node_key(key: str) -> Node:
    """Parse the key of a job or a dataset."""
    kind, namespace, name = key.split(KEY_SEPARATOR, 2)
    return Node("job" if kind == "job" else "dataset", namespace, name)


def column_key(namespace: str, dataset: str, column: str | None) -> str:
    """Return the key of a column. Keys of one dataset sort together, its dataset-level node first."""
    return f"{namespace}{KEY_SEPARATOR}{dataset}{KEY_SEPARATOR}{column or ''}"


def parse_column_key(key: str) -> Column:
    """Parse the key of a column."""
    namespace, dataset, column = key.split(KEY_SEPARATOR, 2)
    return Column(namespace, dataset, column or None)


Bytes = bytes | memoryview
Numbers = Sequence[int]


class StringTable:
    """Distinct strings in one buffer, sorted by their UTF-8 bytes."""

    def __init__(self, offsets: Numbers, body: Bytes) -> None:
        self.offsets = offsets
        self.body = body

    @classmethod
    def from_mapping(cls, numbers: Mapping[str, int]) -> tuple[StringTable, array[int]]:
        """Build a table of strings numbered from 0; also return the position of each by its given number."""
        ordered = sorted(numbers, key=str.encode)
        positions = array("I", bytes(4 * len(ordered)))
        for position, text in enumerate(ordered):
            positions[numbers[text]] = position
        offsets, body = array("Q", [0]), bytearray()
        for text in ordered:
            body += text.encode()
            offsets.append(len(body))
        return cls(offsets, bytes(body)), positions

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> str:
        return str(self.body[self.offsets[number] : self.offsets[number + 1]], "utf-8")

    def last_byte(self, number: int) -> int:
        """Return the last byte of a non-empty string."""
        return self.body[self.offsets[number + 1] - 1]

    def find(self, text: str) -> int | None:
        """Return the number of a string, or None."""
        encoded = text.encode()
        position = self._position(encoded)
        return position if position < len(self) and self._bytes(position) == encoded else None

    def prefix_range(self, prefix: str) -> range:
        """Return the numbers of all strings with a prefix, which must end with a key separator."""
        return range(self._position(prefix.encode()), self._position(prefix_end(prefix).encode()))

    def _position(self, encoded: bytes) -> int:
        return bisect_left(range(len(self)), encoded, key=self._bytes)

    def _bytes(self, number: int) -> bytes:
        return bytes(self.body[self.offsets[number] : self.offsets[number + 1]])


# A pair of nodes is packed into one integer, which sorts faster than a tuple.
_SHIFT = 32
_LOW_MASK = (1 << _SHIFT) - 1


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Neighbours and edge numbers of each node, in one direction."""

    offsets: Numbers
    ends: Numbers
    edges: Numbers

    def ends_of(self, node: int) -> Sequence[int]:
        """Return the neighbours of a node, sorted."""
        return self.ends[self.offsets[node] : self.offsets[node + 1]]

    def edges_of(self, node: int) -> Sequence[int]:
        """Return the edge numbers of a node, in the order of `ends_of`."""
        return self.edges[self.offsets[node] : self.offsets[node + 1]]

    def edge_to(self, node: int, end: int) -> int | None:
        """Return the number of the edge between two nodes, if there is one."""
        last = self.offsets[node + 1]
        position = bisect_left(self.ends, end, self.offsets[node], last)
        return self.edges[position] if position < last and self.ends[position] == end else None


def build_adjacency(nodes: int, starts: Numbers, ends: Numbers) -> Adjacency:
    """Build the adjacency of edges from `starts` to `ends`; an edge's number is its position in both."""
    keys = [start << _SHIFT | end for start, end in zip(starts, ends, strict=True)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    counts = array("I", bytes(4 * (nodes + 1)))
    for start in starts:
        counts[start + 1] += 1
    sorted_ends = array("I", (keys[edge] & _LOW_MASK for edge in order))
    return Adjacency(array("I", accumulate(counts)), sorted_ends, array("I", order))


# Increase when the arrays change; files with another number are rebuilt.
_FORMAT: Final = 6
_MAGIC: Final = b"clewgrph"
_ALIGNMENT = 8
_CHECKSUM_BYTES = 8
_READ_BYTES = 1 << 20


class ArraySpan(Struct, array_like=True):
    """Type code, offset and size in bytes of an array in the file."""

    code: str
    offset: int
    size: int


class _Header(Struct):
    format: int
    byte_order: str
    metadata: msgspec.Raw
    arrays: dict[str, ArraySpan]


class MappedArrays:
    """Memory-mapped arrays by name, with the JSON metadata of the file."""

    def __init__(self, arrays: Mapping[str, memoryview], metadata: msgspec.Raw) -> None:
        self.arrays = arrays
        self.metadata = metadata


def write_arrays(path: Path, arrays: Mapping[str, array[int] | bytes], metadata: Struct) -> None:
    """Write a file of arrays and atomically replace the previous one.

    The file starts with a checksum of what follows it: damaged arrays would give wrong answers.
    """
    spans: dict[str, ArraySpan] = {}
    offset = 0
    for name, values in arrays.items():
        code = "B" if isinstance(values, bytes) else values.typecode
        size = memoryview(values).nbytes
        spans[name] = ArraySpan(code, offset, size)
        offset += size + -size % _ALIGNMENT
    header = msgspec.json.encode(_Header(_FORMAT, sys.byteorder, msgspec.Raw(msgspec.json.encode(metadata)), spans))
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        # It has names of columns: for the owner only, whatever the umask of the command.
        temporary.touch(mode=0o600)
        with temporary.open("wb") as file:
            start = file.write(_MAGIC + bytes(_CHECKSUM_BYTES))
            head = len(header).to_bytes(8, "little") + header
            head += bytes(-(start + len(head)) % _ALIGNMENT)
            file.write(head)
            checksum = crc32(head)
            for values in arrays.values():
                view = memoryview(values).cast("B")
                padding = bytes(-view.nbytes % _ALIGNMENT)
                file.write(view)
                file.write(padding)
                checksum = crc32(padding, crc32(view, checksum))
            file.seek(len(_MAGIC))
            file.write(checksum.to_bytes(_CHECKSUM_BYTES, "little"))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def map_arrays(path: Path) -> MappedArrays | None:
    """Map a file of arrays; None if it is missing, damaged or not readable by this version."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC or not _is_intact(file):
                return None
            size = int.from_bytes(file.read(8), "little")
            header = msgspec.json.decode(file.read(size), type=_Header)
            data_start = file.tell() + -file.tell() % _ALIGNMENT
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError, msgspec.DecodeError):
        return None
    if header.format != _FORMAT or header.byte_order != sys.byteorder:
        return None
    return MappedArrays(
        {name: _cast(content, data_start, span) for name, span in header.arrays.items()}, header.metadata
    )


def _is_intact(file: BinaryIO) -> bool:
    """Return whether the checksum at the position of a file is that of the rest. The position is moved behind it."""
    expected, start, actual = int.from_bytes(file.read(_CHECKSUM_BYTES), "little"), file.tell(), 0
    # Read, not mapped: mapped pages would count as memory of the process.
    while part := file.read(_READ_BYTES):
        actual = crc32(part, actual)
    file.seek(start)
    return actual == expected


def _cast(content: memoryview, data_start: int, span: ArraySpan) -> Any:
    start = data_start + span.offset
    return content[start : start + span.size].cast(span.code)  # type: ignore[call-overload]


_ADJACENCY_PARTS = ("offsets", "ends", "edges")


@dataclass(frozen=True)
class ArrayGraph:
    """Base of graphs that are stored as a file of arrays; edges are numbered."""

    names: StringTable
    forward: Adjacency
    backward: Adjacency

    @property
    def edge_count(self) -> int:
        """Number of edges."""
        return len(self.forward.ends)

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of a newly built graph, to be written to a file."""
        arrays: dict[str, Any] = {}
        for name, kind in _field_types(type(self)).items():
            value = getattr(self, name)
            if kind is StringTable:
                arrays |= {f"{name}.offsets": value.offsets, f"{name}.body": value.body}
            elif kind is Adjacency:
                arrays |= {f"{name}.{part}": getattr(value, part) for part in _ADJACENCY_PARTS}
            else:
                arrays[name] = value if kind == Numbers else msgspec.msgpack.encode(value)
        return arrays

    @classmethod
    def from_arrays(cls, mapped: MappedArrays) -> Self:
        """Create the graph from mapped arrays."""
        arrays = mapped.arrays
        values: dict[str, Any] = {}
        for name, kind in _field_types(cls).items():
            if kind is StringTable:
                values[name] = StringTable(arrays[f"{name}.offsets"], arrays[f"{name}.body"])
            elif kind is Adjacency:
                values[name] = Adjacency(*(arrays[f"{name}.{part}"] for part in _ADJACENCY_PARTS))
            else:
                values[name] = arrays[name] if kind == Numbers else msgspec.msgpack.decode(arrays[name], type=kind)
        return cls(**values)


def _field_types(graph: type[ArrayGraph]) -> dict[str, Any]:
    types = get_type_hints(graph)
    return {field.name: types[field.name] for field in fields(graph)}
