"""Typed access to facet JSON: malformed parts are treated as absent."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_decode = msgspec.json.Decoder().decode
# Many events repeat the same small facets, such as jobType or parent. Large ones are not worth the memory.
_MAX_CACHED = 4096
_MAX_CACHED_BYTES = 4 << 10


def decode_facet(facet: bytes) -> dict[str, Any]:
    """Decode a facet; empty if it is not an object, or was deleted."""
    try:
        value = _decode(facet)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) and value.get("_deleted") is not True else {}


def get_str(value: object, *path: str) -> str | None:
    """Return the string at a path; None if there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def get_objects(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects of a list; other items are skipped."""
    items = value.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def cached_by_bytes(parse: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Cache a parser by the bytes of small facets."""
    cached = lru_cache(_MAX_CACHED)(parse)

    # With the name of the wrapped function, so that Spark pickles the reference and not the cache.
    @wraps(parse)
    def parse_cached(facet: bytes) -> T:
        return cached(facet) if len(facet) <= _MAX_CACHED_BYTES else parse(facet)

    return parse_cached
