"""What the facets of a dataset say of its content: its schema, and how many rows a run read or wrote."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from clew.events.deletion import is_deleted
from clew.events.documents import part
from clew.events.facet_values import remembered
from clew.events.identity import content_id

# In this order: the run's own count goes before the dataset's, should one event bear both.
ROW_COUNT_FACETS: Final = ("outputStatistics", "inputStatistics", "dataQualityMetrics", "columnMetrics")
ROW_COUNT_KEY: Final = '"rowCount"'
_KEY_BYTES = ROW_COUNT_KEY.encode()
_LARGEST = 2**63 - 1


class Schema(NamedTuple):
    """A schema, named by its content; `fields` is the facet's own JSON without spaces."""

    schema_id: str
    fields: str


class _SchemaFacet(Struct):
    fields: Raw = Raw()


class _CountingFacet(Struct, rename="camel"):
    row_count: int | float | None = None


_decode_count = msgspec.json.Decoder(_CountingFacet).decode
_decode_schema = msgspec.json.Decoder(_SchemaFacet).decode


@remembered
def schema_of(facet: bytes) -> Schema | None:
    """Read a `schema` facet; None if it has no list of fields or was deleted."""
    found = part(Raw(facet), _decode_schema)
    if found is None or not bytes(found.fields).startswith(b"[") or is_deleted(facet):
        return None
    fields = msgspec.json.format(bytes(found.fields), indent=-1)
    return Schema(content_id(fields), fields.decode())


def says_row_count(facet: bytes) -> bool:
    """Whether a facet speaks of rows at all; most metrics do not."""
    return _KEY_BYTES in facet


def row_count_of(facet: bytes) -> int | None:
    """`rowCount` of a facet of statistics or metrics."""
    found = part(Raw(facet), _decode_count)
    return None if found is None or is_deleted(facet) else whole_number(found.row_count)


def whole_number(number: float | None) -> int | None:
    """A number as one that tables can hold; None if it is no whole one, or too large."""
    if number is None:
        return None
    whole = int(number)
    return whole if whole == number and abs(whole) <= _LARGEST else None
