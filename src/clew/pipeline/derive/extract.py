"""Rows of the state tables, extracted from events of the lake in Spark tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

import pyarrow as pa
from msgspec import Struct, defstruct
from msgspec.structs import astuple
from pyspark.sql import SparkSession

from clew.events.decoding import RejectedError
from clew.events.facets import FacetOrder
from clew.events.openlineage import Event
from clew.index.changes import ROW_TYPES, ChangeSet, TableRow
from clew.index.extract.extractor import ChangeExtractor, RawOnlyExtractor
from clew.index.merge_rules import MERGE_SPECS, Reducer, compile_reducer
from clew.lake.backfill_state import BackfilledRanges, Chunk
from clew.lake.data_files import DataFile, FileWriter
from clew.lake.lake import Lake
from clew.lake.scan import StoredEvent, plan_partitions
from clew.lake.schemas import STATE_TABLES
from clew.pipeline.worker_reports import WorkerReport, encode_report, run_tasks
from clew.pipeline.workers import EventReader, read_lake_events

_MAX_SEQ: Final = 2**63 - 1
_TYPES: Final = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
# Assertions also have the id of their event.
_EVENT_ID: Final = "event_id"
_ASSERTIONS: Final = "lineage_assertions"


def _schema(row_type: type[TableRow]) -> pa.Schema:
    return pa.schema([(name, _arrow_type(hint)) for name, hint in get_type_hints(row_type).items()])


def _arrow_type(hint: Any) -> pa.DataType:
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    return _TYPES[kinds[0]]


# Schemas of the state tables, by the name of their merge specification.
STATE_SCHEMAS: Final = {
    name: _schema(ROW_TYPES[name]).append(pa.field(_EVENT_ID, pa.string()))
    if name == _ASSERTIONS
    else _schema(ROW_TYPES[name])
    for name in STATE_TABLES
}


# The event id is decided with the other values of an assertion.
STATE_SPECS: Final = {name: MERGE_SPECS[name] for name in STATE_TABLES} | {
    _ASSERTIONS: replace(
        MERGE_SPECS[_ASSERTIONS],
        groups={(*columns, _EVENT_ID): rule for columns, rule in MERGE_SPECS[_ASSERTIONS].groups.items()},
    )
}


def reduce_rows(name: str, tables: Sequence[pa.Table]) -> pa.Table:
    """Merge rows to one row per key in this process."""
    schema, (row_type, reduce) = STATE_SCHEMAS[name], _reducer(name)
    rows: dict[Any, Any] = {}
    for table in tables:
        for values in zip(*(column.to_pylist() for column in table.columns), strict=True):
            reduce(rows, row_type(*values))
    columns = list(zip(*map(astuple, rows.values()), strict=True)) or [()] * len(schema)
    return pa.table([pa.array(*column) for column in zip(columns, schema.types, strict=True)], schema=schema)


@cache
def _reducer(name: str) -> tuple[type[Struct], Reducer]:
    """Return the reducer of a state table, and the type of its rows, which may have more columns than in the index."""
    row_type = defstruct(name, STATE_SCHEMAS[name].names, gc=False)
    return row_type, compile_reducer(STATE_SPECS[name], ROW_TYPES[name])


class NewEvents:
    """Events to process: those after a position of their table, or raw-only events of a newly backfilled chunk."""

    def __init__(self, after: Mapping[str, int], last_seq: int = _MAX_SEQ, *, chunk: Chunk | None = None) -> None:
        self._after = after
        self._last_seq = last_seq
        self._chunk = chunk

    def ranges(self, table: str) -> list[Chunk]:
        """Return the ranges of positions that may contain new events of a table."""
        return [self._chunk or Chunk(self._after.get(table, -1) + 1, self._last_seq)]

    def contains(self, event: StoredEvent) -> bool:
        """Return True if the event is new or was backfilled."""
        first, last = self.ranges(event.table)[0]
        return first <= event.seq <= last and (self._chunk is None or event.is_raw_only)


def extract_changes(spark: SparkSession, lake: Lake, new: NewEvents, backfilled: BackfilledRanges) -> list[DataFile]:
    """Write the rows of new events to files in the folders of the state tables, without committing them."""
    partitions = plan_partitions(lake, spark.sparkContext.defaultParallelism, new.ranges)
    if not partitions:
        return []
    read = partial(read_lake_events, partitions=partitions, backfilled=backfilled, is_included=new.contains)
    return run_tasks(spark, _ExtractTask(str(lake.root), read, lake.facet_order), len(partitions)).files


class _ExtractTask:
    """Writes the rows of events to files of the state tables."""

    def __init__(self, root: str, read: EventReader, order: FacetOrder) -> None:
        self._root = root
        self._read = read
        self._order = order

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as the function of `mapInArrow`."""
        report, writer = WorkerReport(), FileWriter(self._root, {})
        # One partition at a time: the rows of all would use too much memory.
        for batch in batches:
            for position in range(batch.num_rows):
                report.files += writer.add(self._rows(batch.slice(position, 1)))
        report.files += writer.flush()
        yield encode_report(report, self._root)

    def _rows(self, task: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        extractor, raw_extractor = ChangeExtractor(order=self._order, has_facets=False), RawOnlyExtractor()
        event_ids = {}
        for item in self._read(iter([task])):
            event, origin = item.event, item.origin
            if event is None or isinstance(event, RejectedError):
                continue
            event_ids[origin.seq] = origin.event_id
            if isinstance(event, Event) and item.is_raw_only:
                raw_extractor.add(event, origin.event_id, origin.seq)
            else:
                extractor.add(event, origin.event_id, origin.seq)
        changes = ChangeSet.concat([extractor.changes(), raw_extractor.changes()])
        return {table: _to_batch(name, getattr(changes, name), event_ids) for name, table in STATE_TABLES.items()}


def _to_batch(name: str, rows: Sequence[TableRow], event_ids: Mapping[int, str]) -> pa.RecordBatch:
    schema = STATE_SCHEMAS[name]
    columns = list(zip(*map(astuple, rows), strict=True)) or [()] * len(schema)
    if name == _ASSERTIONS and rows:
        columns.append(tuple(event_ids[row.seq] for row in rows))  # type: ignore[attr-defined]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
