"""A facet as a plain value: what is not of the expected shape says nothing, and never stops anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_decode = msgspec.json.Decoder().decode
# The same bodies come again and again: a job's type, a session as parent. Large ones are not worth the memory.
_MOST_REMEMBERED = 4096
_LARGEST_REMEMBERED = 4 << 10


def value_of(facet: bytes) -> dict[str, Any]:
    """The object that a facet is; empty if it is none, or was deleted."""
    try:
        found = _decode(facet)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) and found.get("_deleted") is not True else {}


def text_in(value: object, *path: str) -> str | None:
    """The text at a path; None where there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def objects_in(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects of a list, without what else stands in it."""
    items = value.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def remembered(read: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """The same reading, done once for a small body that comes again."""
    cached = lru_cache(_MOST_REMEMBERED)(read)

    # Under the name of what it wraps, so that Spark sends workers the name and not the memory.
    @wraps(read)
    def remembering(facet: bytes) -> T:
        return cached(facet) if len(facet) <= _LARGEST_REMEMBERED else read(facet)

    return remembering
