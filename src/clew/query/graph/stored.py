"""Arrays in one file that is read in place: opened at once however large, and shared by all who read it."""

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

# Raised when arrays change their meaning: a file of another number is made anew.
_FORMAT: Final = 1
_MAGIC: Final = b"clewgrph"
_ALIGNMENT = 8


class Place(Struct, array_like=True):
    """Where in the file an array is."""

    code: str
    offset: int
    size: int


class _Head(Struct):
    format: int
    byte_order: str
    about: msgspec.Raw
    arrays: dict[str, Place]


class StoredArrays:
    """The arrays of a file, by name, and what was noted with them."""

    def __init__(self, arrays: Mapping[str, memoryview], about: msgspec.Raw) -> None:
        self.arrays = arrays
        self.about = about


def store(path: Path, arrays: Mapping[str, array[int] | bytes], about: Struct) -> None:
    """Write a file that takes the place of the one before when it is whole."""
    places: dict[str, Place] = {}
    offset = 0
    for name, values in arrays.items():
        code = "B" if isinstance(values, bytes) else values.typecode
        size = memoryview(values).nbytes
        places[name] = Place(code, offset, size)
        offset += size + -size % _ALIGNMENT
    head = msgspec.json.encode(_Head(_FORMAT, sys.byteorder, msgspec.Raw(msgspec.json.encode(about)), places))
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(_MAGIC + len(head).to_bytes(8, "little") + head)
            file.write(bytes(-file.tell() % _ALIGNMENT))
            for values in arrays.values():
                view = memoryview(values)
                file.write(view)
                file.write(bytes(-view.nbytes % _ALIGNMENT))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def stored(path: Path) -> StoredArrays | None:
    """Open a file; None if there is none, or none that this program can read."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
            size = int.from_bytes(file.read(8), "little")
            head = msgspec.json.decode(file.read(size), type=_Head)
            begin = file.tell() + -file.tell() % _ALIGNMENT
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError, msgspec.DecodeError):
        return None
    last = max((place.offset + place.size for place in head.arrays.values()), default=0)
    if head.format != _FORMAT or head.byte_order != sys.byteorder or begin + last > len(whole):
        return None
    return StoredArrays({name: _array(whole, begin, place) for name, place in head.arrays.items()}, head.about)


def _array(whole: memoryview, begin: int, place: Place) -> Any:
    start = begin + place.offset
    return whole[start : start + place.size].cast(place.code)  # type: ignore[call-overload]
