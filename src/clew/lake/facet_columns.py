"""Columns of the facet tables: UUIDs, text buffers, validation, large facets; rows of facets inside Spark tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, compress, count
from operator import not_
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Raw

from clew.events.facets import Owner, Tag, parse_owners, parse_tags
from clew.events.validation import FacetErrorCode, FacetSpec, check_facet, valid_prefix
from clew.lake.schemas import LARGE_FACETS
from clew.lake.storage import open_parquet

_MAX_BYTES: Final = np.iinfo(np.int32).max


class StringBuffer:
    """Strings known to be UTF-8; string n is `data[offsets[n]:offsets[n + 1]]`."""

    def __init__(self, bodies: Sequence[bytes | memoryview | Raw]) -> None:
        self.data = b"".join(bodies)
        if len(self.data) > _MAX_BYTES:
            message = f"{len(self.data):,} bytes of text exceed the limit of an Arrow array."
            raise ValueError(message)
        self.offsets = np.zeros(len(bodies) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, bodies), np.int32, len(bodies)), out=self.offsets[1:])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> bytes:
        return self.data[self.offsets[index] : self.offsets[index + 1]]

    def to_arrow(self) -> pa.Array:
        """Return the strings as an Arrow array."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.string(), len(self), buffers)


def uuid_prefix(event_id: str) -> str:
    """Return the common part of the UUIDs (version 8) of the facets of an event."""
    return f"{event_id[:8]}-{event_id[8:12]}-8{event_id[13:16]}-8{event_id[17:20]}-{event_id[20:26]}"


def build_facet_uuids(prefixes: Sequence[str], events: np.ndarray, positions: np.ndarray) -> pa.Array:
    """Build one UUID per facet from the prefix of its event and its position in the event."""
    facets = zip(events.tolist(), positions.tolist(), strict=True)
    return pa.array([f"{prefixes[event]}{position:06x}" for event, position in facets], pa.string())


# A producer serializes a facet the same way each time. Beyond these limits, each facet is parsed.
_MAX_PREFIXES = 16
_MAX_PREFIX_LENGTH = 1024


class FacetValidator:
    """Validates the facets of one table.

    Valid facets are rarely parsed: the prefix of a valid facet is remembered, and facets with that prefix are valid.
    Decoding each standard facet into a Struct costs 5 microseconds more per event: 15 % of building its rows.
    """

    def __init__(self, specs: Mapping[str, FacetSpec]) -> None:
        self._specs = specs
        self._valid_prefixes: defaultdict[str, tuple[bytes, ...]] = defaultdict(tuple)

    def find_errors(self, names: Sequence[str], facets: StringBuffer) -> pa.Array:
        """Return the error of each facet, null if it is valid; facets without a spec only have to be objects."""
        errors = dict(self._find(names, facets))
        return (
            pa.array(map(errors.get, range(len(names))), pa.string()) if errors else pa.nulls(len(names), pa.string())
        )

    def _find(self, names: Sequence[str], facets: StringBuffer) -> Iterator[tuple[int, str]]:
        # Lazy: a prefix learned from one facet is used for the next ones.
        prefixes = map(self._valid_prefixes.__getitem__, names)
        are_valid = map(facets.data.startswith, prefixes, facets.offsets.tolist())
        for position in compress(count(), map(not_, are_valid)):
            error = self._check(names[position], facets[position])
            if error is not None:
                yield position, error

    def _check(self, name: str, facet: bytes) -> str | None:
        spec = self._specs.get(name)
        # Facets are slices of valid JSON without surrounding whitespace: the first byte is sufficient.
        if not facet.startswith(b"{"):
            return FacetErrorCode.NULL if facet == b"null" else FacetErrorCode.NOT_AN_OBJECT
        error = None if spec is None else check_facet(facet, spec)
        if error is None:
            self._remember_prefix(name, facet, spec)
        return error

    def _remember_prefix(self, name: str, facet: bytes, spec: FacetSpec | None) -> None:
        prefixes = self._valid_prefixes[name]
        if len(prefixes) < _MAX_PREFIXES:
            prefix = "{" if spec is None else valid_prefix(facet.decode(), spec)
            if prefix is not None and len(prefix) <= _MAX_PREFIX_LENGTH:
                self._valid_prefixes[name] = (*prefixes, prefix.encode())


MAX_INLINE_BYTES: Final = 64 << 10


def split_large_facets(facets: Mapping[str, pa.RecordBatch]) -> dict[str, pa.RecordBatch]:
    """Move the large facets of all facet tables into a batch for `large_facets`."""
    split = {name: _split(rows) for name, rows in facets.items()}
    small = {name: rows for name, (rows, _) in split.items()}
    large = [large_rows for _, large_rows in split.values() if large_rows is not None]
    if not large:
        return small
    (combined,) = pa.Table.from_batches(large).combine_chunks().to_batches()
    return {LARGE_FACETS.name: combined, **small}


def _split(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    sizes = pc.binary_length(rows.column("facet"))
    if (pc.max(sizes).as_py() or 0) <= MAX_INLINE_BYTES:
        return rows, None
    is_large = pc.greater(sizes, MAX_INLINE_BYTES)
    null = pa.scalar(None)
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns["facet"] = pc.if_else(is_large, null.cast(pa.string()), columns["facet"])
    columns["large_facet_bytes"] = pc.if_else(is_large, sizes.cast(pa.int64()), null.cast(pa.int64()))
    small = pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)
    return small, rows.filter(is_large).select(LARGE_FACETS.schema.names)


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
