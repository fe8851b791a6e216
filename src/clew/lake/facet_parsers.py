"""Rows of facets inside Spark tasks, and references to large facets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from clew.events.facets import Owner, Tag, parse_owners, parse_tags
from clew.lake.storage import open_parquet

# JSON cannot contain this character.
REF_MARKER: Final = "\x00"
ROW_SEPARATOR: Final = "#"
_MAX_CACHED_FOOTERS = 256


def resolve_ref(text: str) -> bytes:
    """Return the body of a facet; a reference is replaced by the facet's body."""
    _, marker, ref = text.partition(REF_MARKER)
    return _read_body(ref) if marker else text.encode()


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


class FacetExploder(NamedTuple):
    """Parses a facet into any number of rows."""

    columns: tuple[tuple[str, pa.DataType], ...]
    explode: Callable[[bytes], Iterable[Sequence[Any]]]


TAGS: Final = FacetExploder(tuple((name, pa.string()) for name in Tag._fields), parse_tags)
OWNERS: Final = FacetExploder(tuple((name, pa.string()) for name in Owner._fields), parse_owners)


def explode_rows(batch: pa.RecordBatch, column: str, exploder: FacetExploder) -> pa.RecordBatch:
    """Replace a facet column by one row per item of the facet."""
    row_indices: list[int] = []
    exploded: list[Sequence[Any]] = []
    for position, facet in enumerate(batch.column(column).to_pylist()):
        items = [] if facet is None else list(exploder.explode(resolve_ref(facet)))
        row_indices += [position] * len(items)
        exploded += items
    result = batch.drop_columns([column]).take(pa.array(row_indices, pa.int32()))
    for position, (name, kind) in enumerate(exploder.columns):
        result = result.append_column(name, pa.array([values[position] for values in exploded], kind))
    return result
