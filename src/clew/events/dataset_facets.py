"""Parsers of the dataset facets with schemas and row counts."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from clew.events.deletion import is_deleted
from clew.events.documents import decode_optional
from clew.events.facet_values import cached_by_bytes
from clew.events.identity import content_id

# In this order: the row count of a run precedes that of the dataset if one event has both.
ROW_COUNT_FACETS: Final = ("outputStatistics", "inputStatistics", "dataQualityMetrics", "columnMetrics")
ROW_COUNT_KEY: Final = '"rowCount"'
_KEY_BYTES = ROW_COUNT_KEY.encode()
_MAX_INT64 = 2**63 - 1


class Schema(NamedTuple):
    """A schema with the hash of its content as id; `fields` is the facet's JSON without whitespace."""

    schema_id: str
    fields: str


class _SchemaFacet(Struct):
    fields: Raw = Raw()


class _CountingFacet(Struct, rename="camel"):
    row_count: int | float | None = None


_decode_count = msgspec.json.Decoder(_CountingFacet).decode
_decode_schema = msgspec.json.Decoder(_SchemaFacet).decode


@cached_by_bytes
def parse_schema(facet: bytes) -> Schema | None:
    """Parse a `schema` facet; None if it has no list of fields or was deleted."""
    decoded = decode_optional(Raw(facet), _decode_schema)
    if decoded is None or not bytes(decoded.fields).startswith(b"[") or is_deleted(facet):
        return None
    fields = msgspec.json.format(bytes(decoded.fields), indent=-1)
    return Schema(content_id(fields), fields.decode())


def has_row_count(facet: bytes) -> bool:
    """Return True if the facet may have a `rowCount`, without parsing it."""
    return _KEY_BYTES in facet


def parse_row_count(facet: bytes) -> int | None:
    """Parse the `rowCount` of a statistics or metrics facet."""
    decoded = decode_optional(Raw(facet), _decode_count)
    return None if decoded is None or is_deleted(facet) else as_int64(decoded.row_count)


def as_int64(number: float | None) -> int | None:
    """Convert to a 64-bit integer; None if the number is not integral or too large."""
    if number is None:
        return None
    whole = int(number)
    return whole if whole == number and abs(whole) <= _MAX_INT64 else None
