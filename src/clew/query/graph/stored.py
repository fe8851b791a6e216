"""A file of named arrays, read through a memory map that all processes share."""

from __future__ import annotations

import mmap
import os
import sys
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

# Increase when the arrays change; files with another number are rebuilt.
_FORMAT: Final = 2
_MAGIC: Final = b"clewgrph"
_ALIGNMENT = 8


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
    """Write a file of arrays and atomically replace the previous one."""
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
        with temporary.open("wb") as file:
            file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
            file.write(bytes(-file.tell() % _ALIGNMENT))
            for values in arrays.values():
                view = memoryview(values)
                file.write(view)
                file.write(bytes(-view.nbytes % _ALIGNMENT))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def map_arrays(path: Path) -> MappedArrays | None:
    """Map a file of arrays; None if it is missing or not readable by this version."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
            size = int.from_bytes(file.read(8), "little")
            header = msgspec.json.decode(file.read(size), type=_Header)
            data_start = file.tell() + -file.tell() % _ALIGNMENT
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError, msgspec.DecodeError):
        return None
    last = max((span.offset + span.size for span in header.arrays.values()), default=0)
    if header.format != _FORMAT or header.byte_order != sys.byteorder or data_start + last > len(content):
        return None
    return MappedArrays(
        {name: _cast(content, data_start, span) for name, span in header.arrays.items()}, header.metadata
    )


def _cast(content: memoryview, data_start: int, span: ArraySpan) -> Any:
    start = data_start + span.offset
    return content[start : start + span.size].cast(span.code)  # type: ignore[call-overload]
