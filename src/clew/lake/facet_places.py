"""References (`file#row`) to large facets: Spark plans carry the reference, the task that parses it reads the body."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

import pyarrow.parquet as pq

from clew.events.dataset_facets import has_row_count
from clew.events.deletion import is_deleted
from clew.events.explicit_lineage import ENTRIES_KEY
from clew.events.statements import ORIGIN_SEPARATOR, compute_edge_set_id
from clew.lake.storage import open_parquet

# JSON cannot contain this character.
REF_MARKER: Final = "\x00"
ROW_SEPARATOR: Final = "#"
_MAX_CACHED_FOOTERS = 256


class LargeFacetInfo(NamedTuple):
    """Properties of a large facet that transforms need; the hash covers the facet's name and body."""

    text_md5: str
    is_deletion: bool
    has_row_count: bool
    has_entries: bool


def is_ref(text: str) -> bool:
    """Return whether a text contains a reference."""
    return REF_MARKER in text


def resolve_ref(text: str) -> bytes:
    """Replace the reference in a text by the facet's body."""
    head, marker, ref = text.partition(REF_MARKER)
    return head.encode() + _read_body(ref) if marker else text.encode()


def inspect_facet(name: str, facet: str) -> LargeFacetInfo:
    """Read a facet and return its properties."""
    body = resolve_ref(facet)
    text = f"{name}{ORIGIN_SEPARATOR}".encode() + body
    return LargeFacetInfo(
        compute_edge_set_id(text), is_deleted(body), has_row_count(body), ENTRIES_KEY.encode() in body
    )


def _read_body(ref: str) -> bytes:
    path, _, row = ref.rpartition(ROW_SEPARATOR)
    ends = _row_group_ends(path)
    group = next(number for number, end in enumerate(ends) if int(row) < end)
    with pq.ParquetFile(open_parquet(path)) as file:
        facets = file.read_row_group(group, columns=["facet"])["facet"]
    body: bytes = facets[int(row) - ends[group]].as_buffer().to_pybytes()
    return body


@lru_cache(_MAX_CACHED_FOOTERS)
def _row_group_ends(path: str) -> list[int]:
    footer = pq.read_metadata(open_parquet(path))
    return list(accumulate(footer.row_group(number).num_rows for number in range(footer.num_row_groups)))
