"""Parse facets to columns and rows inside Spark tasks; references to large facets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import astuple

from clew.events.column_lineage import (
    ENTRIES_KEY,
    ORIGIN_SEPARATOR,
    ColumnEdge,
    compute_edge_set_id,
    parse_asserted_edges,
    parse_entries,
    parse_explicit_assertions,
    parse_sources,
)
from clew.events.facets import (
    Owner,
    Tag,
    has_row_count,
    is_deleted,
    parse_description,
    parse_job_type,
    parse_lifecycle_change,
    parse_nominal_time,
    parse_owners,
    parse_parent,
    parse_row_count,
    parse_run_error,
    parse_schema,
    parse_source_code_location,
    parse_symlinks,
    parse_tags,
)
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


_STRING = pa.string()
_LONG = pa.int64()
_TIME = pa.timestamp("us", tz="UTC")
_NO_SOURCE = (None, None, None)
_NO_EDGE = (None,) * 9


class FacetParser(NamedTuple):
    """Parses a facet into a fixed number of columns."""

    columns: tuple[tuple[str, pa.DataType], ...]
    parse: Callable[[bytes], Sequence[Any]]


class FacetExploder(NamedTuple):
    """Parses a facet into any number of rows."""

    columns: tuple[tuple[str, pa.DataType], ...]
    explode: Callable[[bytes], Iterable[Sequence[Any]]]
    # Reduced rows of a large facet, if not all are needed.
    explode_large: Callable[[bytes], Iterable[Sequence[Any]]] | None = None


def _string_columns(*names: str) -> tuple[tuple[str, pa.DataType], ...]:
    return tuple((name, _STRING) for name in names)


_PARENT_COLUMNS = ("parent_run_uuid", "parent_job_namespace", "parent_job_name")
_ROOT_COLUMNS = ("root_run_uuid", "root_job_namespace", "root_job_name")

PARENT: Final = FacetParser(_string_columns(*_PARENT_COLUMNS, *_ROOT_COLUMNS), lambda facet: parse_parent(facet).names)
NOMINAL_TIME: Final = FacetParser((("nominal_start_at", _TIME), ("nominal_end_at", _TIME)), parse_nominal_time)
ERROR: Final = FacetParser(_string_columns("error_message", "error_language"), parse_run_error)
SOURCE_CODE_LOCATION: Final = FacetParser(
    _string_columns("source_code_location"), lambda facet: (parse_source_code_location(facet),)
)
JOB_TYPE: Final = FacetParser(_string_columns("job_type", "integration", "processing_type"), parse_job_type)
DESCRIPTION: Final = FacetParser(_string_columns("description"), lambda facet: (parse_description(facet),))
SCHEMA: Final = FacetParser(_string_columns("schema_id", "fields"), lambda facet: parse_schema(facet) or (None, None))
SCHEMA_ID: Final = FacetParser(_string_columns("schema_id"), lambda facet: (parse_schema(facet) or (None,))[:1])
ROW_COUNT: Final = FacetParser((("row_count", _LONG),), lambda facet: (parse_row_count(facet),))
LIFECYCLE_STATE: Final = FacetParser(
    _string_columns("lifecycle_state"), lambda facet: (getattr(parse_lifecycle_change(facet), "state", None),)
)
PARENT_REFERENCES: Final = FacetExploder(
    (*_string_columns("run_uuid", "job_namespace", "job_name"), ("position", _LONG)),
    lambda facet: ((run, *(job or (None, None)), n) for n, (run, job) in enumerate(parse_parent(facet).runs)),
)
LIFECYCLE: Final = FacetParser(
    _string_columns("lifecycle_state", "renamed_from_namespace", "renamed_from_name"),
    lambda facet: parse_lifecycle_change(facet) or (None, None, None),
)
# A facet without identifiers yields one row with nulls.
IDENTIFIERS: Final = FacetExploder(
    _string_columns("other_namespace", "other_name"), lambda facet: parse_symlinks(facet) or ((None, None),)
)
EXPLICIT_ASSERTIONS: Final = FacetExploder(
    (*_string_columns("dataset_namespace", "dataset_name", "facet"), ("position", _LONG)),
    lambda facet: (
        (*assertion[1:3], assertion.body.decode(), n) for n, assertion in enumerate(parse_explicit_assertions(facet))
    ),
)
# A source or target without a name is the event's own job.
LINEAGE_ENTRIES: Final = FacetExploder(
    (
        ("position", _LONG),
        *_string_columns("target_type", "target_namespace", "target_name", "type", "namespace", "name"),
    ),
    lambda facet: (
        (position, *entry.target, *source)
        for position, entry in enumerate(parse_entries(facet))
        for source in parse_sources(entry.body) or (_NO_SOURCE,)
    ),
)
# An assertion without edges yields one row with a null position; a retraction yields no row.
EDGES: Final = FacetExploder(
    (
        ("edge_position", _LONG),
        *_string_columns(
            "column", "source_namespace", "source_name", "source_column", "type", "subtype", "description"
        ),
        ("masking", pa.bool_()),
    ),
    lambda text: _edge_rows(parse_asserted_edges(text)),
    lambda text: _edge_rows_by_source(parse_asserted_edges(text)),
)
TAGS: Final = FacetExploder(_string_columns(*Tag._fields), parse_tags)
OWNERS: Final = FacetExploder(_string_columns(*Owner._fields), parse_owners)


def _edge_rows(edges: list[ColumnEdge] | None) -> Iterable[Sequence[Any]]:
    if edges is None:
        return []
    return [(position, *astuple(edge)) for position, edge in enumerate(edges)] or [_NO_EDGE]


def _edge_rows_by_source(edges: list[ColumnEdge] | None) -> Iterable[Sequence[Any]]:
    """Return the first edge from each source."""
    by_source = {(row[2], row[3]): row for row in reversed(list(_edge_rows(edges)))}
    return by_source.values()


def parse_columns(batch: pa.RecordBatch, parsers: Mapping[str, FacetParser]) -> pa.RecordBatch:
    """Replace facet columns by their parsed columns; a null facet gives nulls."""
    for name, parser in parsers.items():
        facets = batch.column(name).to_pylist()
        nulls = (None,) * len(parser.columns)
        rows = [nulls if facet is None else parser.parse(resolve_ref(facet)) for facet in facets]
        batch = batch.drop_columns([name])
        for index, (column, kind) in enumerate(parser.columns):
            batch = batch.append_column(column, pa.array([values[index] for values in rows], kind))
    return batch


def explode_rows(batch: pa.RecordBatch, column: str, exploder: FacetExploder) -> pa.RecordBatch:
    """Replace a facet column by one row per item of the facet."""
    row_indices: list[int] = []
    exploded: list[Sequence[Any]] = []
    for position, facet in enumerate(batch.column(column).to_pylist()):
        items = [] if facet is None else list(_explode(facet, exploder))
        row_indices += [position] * len(items)
        exploded += items
    result = batch.drop_columns([column]).take(pa.array(row_indices, pa.int32()))
    for position, (name, kind) in enumerate(exploder.columns):
        result = result.append_column(name, pa.array([values[position] for values in exploded], kind))
    return result


def _explode(facet: str, exploder: FacetExploder) -> Iterable[Sequence[Any]]:
    explode = exploder.explode_large if is_ref(facet) and exploder.explode_large else exploder.explode
    return explode(resolve_ref(facet))


# Column with the reference to the facet, set in rows that represent all edges from their source.
WIDE_EDGE_TEXT: Final = "wide_edge_text"
# Columns that differ between the edges from one source.
_EDGE_COLUMNS: Final = ("column", "source_column", "type", "subtype", "description", "masking")


def has_wide_rows(rows: pa.RecordBatch) -> bool:
    """Return whether some rows represent many edges."""
    return WIDE_EDGE_TEXT in rows.schema.names and rows.column(WIDE_EDGE_TEXT).null_count < rows.num_rows


def expand_edges(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Replace each row that represents many edges by all of them; rows of other tables pass unchanged."""
    if WIDE_EDGE_TEXT not in rows.schema.names:
        yield rows
        return
    texts, narrow = rows.column(WIDE_EDGE_TEXT), rows.drop_columns([WIDE_EDGE_TEXT])
    positions = pc.indices_nonzero(pc.is_valid(texts)).to_pylist()
    for before, position in pairwise([-1, *positions, rows.num_rows]):
        yield narrow.slice(before + 1, position - before - 1)
        if position < rows.num_rows:
            yield _expand(narrow.slice(position, 1), texts[position].as_py())


def _expand(row: pa.RecordBatch, text: str) -> pa.RecordBatch:
    edges = _edges(text)
    source = _source(edges[row.column("edge_position")[0].as_py()])
    own = [position for position, edge in enumerate(edges) if _source(edge) == source]
    repeated = row.take(pa.array([0] * len(own), pa.int32()))
    values = {
        "edge_position": own,
        **{name: [getattr(edges[position], name) for position in own] for name in _EDGE_COLUMNS},
    }
    columns = [
        pa.array(values[field.name], field.type) if field.name in values else repeated.column(field.name)
        for field in row.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=row.schema)


# Rows of one facet are adjacent.
@lru_cache(1)
def _edges(text: str) -> list[ColumnEdge]:
    return parse_asserted_edges(resolve_ref(text)) or []


def _source(edge: ColumnEdge) -> tuple[str, str]:
    return edge.source_namespace, edge.source_name
