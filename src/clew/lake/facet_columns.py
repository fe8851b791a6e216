"""Facets as columns: what the workers read from a facet for the index, read from the lake by the same functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from msgspec.structs import astuple

from clew.events.column_lineage import StatedEdge
from clew.events.dataset_facets import row_count_of, schema_of
from clew.events.explicit_lineage import entries_of, sources_of
from clew.events.job_facets import description_of, job_type_of, location_of
from clew.events.labels import Owner, Tag, owners_of, tags_of
from clew.events.lifecycle import lifecycle_change_of
from clew.events.run_facets import error_of, nominal_time_of, parent_of
from clew.events.statements import explicit_statements_of, stated_edges_of
from clew.events.symlinks import identifiers_of
from clew.lake.facet_places import is_place, whole

_STRING = pa.string()
_LONG = pa.int64()
_TIME = pa.timestamp("us", tz="UTC")
_NOTHING = (None, None, None)
_NO_EDGE = (None,) * 9


class Reading(NamedTuple):
    """The columns that a facet becomes."""

    columns: tuple[tuple[str, pa.DataType], ...]
    values: Callable[[bytes], Sequence[Any]]


class Listing(NamedTuple):
    """The columns of each of the rows that a facet becomes."""

    columns: tuple[tuple[str, pa.DataType], ...]
    rows: Callable[[bytes], Iterable[Sequence[Any]]]
    # What is listed of a large facet, if that is not all.
    few_rows: Callable[[bytes], Iterable[Sequence[Any]]] | None = None


def _texts(*names: str) -> tuple[tuple[str, pa.DataType], ...]:
    return tuple((name, _STRING) for name in names)


_PARENT = ("parent_run_uuid", "parent_job_namespace", "parent_job_name")
_ROOT = ("root_run_uuid", "root_job_namespace", "root_job_name")

PARENT: Final = Reading(_texts(*_PARENT, *_ROOT), lambda facet: parent_of(facet).names)
NOMINAL_TIME: Final = Reading((("nominal_start_at", _TIME), ("nominal_end_at", _TIME)), nominal_time_of)
ERROR: Final = Reading(_texts("error_message", "error_language"), error_of)
LOCATION: Final = Reading(_texts("location"), lambda facet: (location_of(facet),))
JOB_TYPE: Final = Reading(_texts("job_type", "integration", "processing_type"), job_type_of)
DESCRIPTION: Final = Reading(_texts("description"), lambda facet: (description_of(facet),))
SCHEMA: Final = Reading(_texts("schema_id", "fields"), lambda facet: schema_of(facet) or (None, None))
SCHEMA_ID: Final = Reading(_texts("schema_id"), lambda facet: (schema_of(facet) or (None,))[:1])
ROW_COUNT: Final = Reading((("row_count", _LONG),), lambda facet: (row_count_of(facet),))
LIFECYCLE_STATE: Final = Reading(
    _texts("lifecycle_state"), lambda facet: (getattr(lifecycle_change_of(facet), "state", None),)
)
MENTIONS: Final = Listing(
    (*_texts("run_uuid", "job_namespace", "job_name"), ("place", _LONG)),
    lambda facet: ((run, *(job or (None, None)), n) for n, (run, job) in enumerate(parent_of(facet).ancestors)),
)
LIFECYCLE: Final = Reading(
    _texts("lifecycle_state", "renamed_from_namespace", "renamed_from_name"),
    lambda facet: lifecycle_change_of(facet) or (None, None, None),
)
# A facet that gives no other name has a row without one.
IDENTIFIERS: Final = Listing(
    _texts("other_namespace", "other_name"), lambda facet: identifiers_of(facet) or ((None, None),)
)
EXPLICIT_STATEMENTS: Final = Listing(
    (*_texts("dataset_namespace", "dataset_name", "facet"), ("place", _LONG)),
    lambda facet: ((*one[1:3], one.body.decode(), n) for n, one in enumerate(explicit_statements_of(facet))),
)
# An entity without a name is the event's own job.
LINKS: Final = Listing(
    (("place", _LONG), *_texts("target_type", "target_namespace", "target_name", "type", "namespace", "name")),
    lambda facet: (
        (place, *entry.target, *source)
        for place, entry in enumerate(entries_of(facet))
        for source in sources_of(entry.body) or (_NOTHING,)
    ),
)
# A statement without edges has a row without an ordinal; one that takes others back has none.
EDGES: Final = Listing(
    (
        ("ordinal", _LONG),
        *_texts("column", "source_namespace", "source_name", "source_column", "type", "subtype", "description"),
        ("masking", pa.bool_()),
    ),
    lambda text: _edge_rows(stated_edges_of(text)),
    lambda text: _edge_rows_by_source(stated_edges_of(text)),
)
TAGS: Final = Listing(_texts(*Tag._fields), tags_of)
OWNERS: Final = Listing(_texts(*Owner._fields), owners_of)


def _edge_rows(edges: list[StatedEdge] | None) -> Iterable[Sequence[Any]]:
    if edges is None:
        return []
    return [(place, *astuple(edge)) for place, edge in enumerate(edges)] or [_NO_EDGE]


def _edge_rows_by_source(edges: list[StatedEdge] | None) -> Iterable[Sequence[Any]]:
    """The first edge from each source."""
    by_source = {(row[2], row[3]): row for row in reversed(list(_edge_rows(edges)))}
    return by_source.values()


def with_values(batch: pa.RecordBatch, readings: Mapping[str, Reading]) -> pa.RecordBatch:
    """The rows with columns of facets replaced by what they say; an absent facet says nothing."""
    for name, reading in readings.items():
        facets = batch.column(name).to_pylist()
        unsaid = (None,) * len(reading.columns)
        found = [unsaid if facet is None else reading.values(whole(facet)) for facet in facets]
        batch = batch.drop_columns([name])
        for place, (column, kind) in enumerate(reading.columns):
            batch = batch.append_column(column, pa.array([values[place] for values in found], kind))
    return batch


def with_rows(batch: pa.RecordBatch, column: str, listing: Listing) -> pa.RecordBatch:
    """A row for each that a facet lists, in place of the facet."""
    rows: list[int] = []
    found: list[Sequence[Any]] = []
    for place, facet in enumerate(batch.column(column).to_pylist()):
        listed = [] if facet is None else list(_listed(facet, listing))
        rows += [place] * len(listed)
        found += listed
    spread = batch.drop_columns([column]).take(pa.array(rows, pa.int32()))
    for place, (name, kind) in enumerate(listing.columns):
        spread = spread.append_column(name, pa.array([values[place] for values in found], kind))
    return spread


def _listed(facet: str, listing: Listing) -> Iterable[Sequence[Any]]:
    rows = listing.few_rows if is_place(facet) and listing.few_rows else listing.rows
    return rows(whole(facet))
