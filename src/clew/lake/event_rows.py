"""Events as Arrow batches of the event tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import Raw

from clew.events.decoding import Document, RejectedError
from clew.events.notebook import DataFrameEvent, RuntimeEvent, flatten_dataframe, flatten_runtime
from clew.events.openlineage import Dataset, Event, Facets, parse_dataset_version, parse_time
from clew.events.validation import DATASET_FACET_SPECS, JOB_FACET_SPECS, RUN_FACET_SPECS, FacetSpec
from clew.lake.facet_columns import (
    FacetValidator,
    StringBuffer,
    build_facet_uuids,
    split_large_facets,
    uuid_prefix,
)
from clew.lake.schemas import (
    DATAFRAME_EVENTS,
    DATASET_FACETS,
    JOB_FACETS,
    LINEAGE_EVENTS,
    REJECTED_EVENTS,
    RUN_FACETS,
    RUNTIME_EVENTS,
    Table,
)


def notebook_row(event: RuntimeEvent | DataFrameEvent, received: ReceivedEvent) -> dict[str, Any]:
    """Build a row of `runtime_events` or `dataframe_events`; members without a column are ignored."""
    members = flatten_runtime(event) if isinstance(event, RuntimeEvent) else flatten_dataframe(event)
    # Members of any type are stored as JSON text.
    texts = {name: bytes(value).decode() or None for name, value in members.items() if isinstance(value, Raw)}
    return {
        **_origin(received),
        **members,
        **texts,
        "event_time": parse_time(event.timestamp),
        "emitted_at": _time_or_none(event.emitted_at),
        "event": str(received.body, "utf-8"),
    }


def _time_or_none(text: str | None) -> datetime | None:
    try:
        return None if text is None else parse_time(text)
    except ValueError:
        return None


class ReceivedEvent(NamedTuple):
    """The bytes of an event, its content hash, and where and when it was received."""

    event_id: str
    seq: int
    received_at: datetime
    source: str
    body: Document
    # JSON of where it was read: Kafka's topic, partition, offset, timestamp, key and headers.
    metadata: str | None = None


# Column of a facet table -> column of `lineage_events` that it is copied from, where the names differ.
_EVENT_COLUMN_OF = {
    "created_at": "received_at",
    "lineage_event_time": "event_time",
    "lineage_event_type": "event_type",
}
_EVENT_COLUMNS = tuple(name for name in LINEAGE_EVENTS.schema.names if name not in ("inputs", "outputs"))
_DATASET_LIST_TYPE = LINEAGE_EVENTS.schema.field("inputs").type
_DATASET_COLUMNS = tuple(f"dataset_{field.name}" for field in _DATASET_LIST_TYPE.value_type)
# Groups of facets refer to these rows by index.
_DIRECTIONS = pa.record_batch({"direction": [None, "INPUT", "OUTPUT"]})
_TYPES = pa.record_batch({"type": ["DATASET", "INPUT", "OUTPUT"]})
_NONE, _INPUT, _OUTPUT = range(3)


class _FacetTableBuilder:
    """Builds the batches of one facet table. A group holds the facets of one entity in one event."""

    def __init__(self, table: Table, specs: Mapping[str, FacetSpec], *own: str) -> None:
        self._table = table
        others = {"uuid", "name", "facet", "large_facet_bytes", "facet_error", *own}
        self._event_columns = [name for name in table.schema.names if name not in others]
        self._validator = FacetValidator(specs)
        self._reset()

    def _reset(self) -> None:
        self._names: list[str] = []
        # Only the bodies, so that the memory of the decoded event can be reused.
        self._facets: list[Raw] = []
        self._groups: list[tuple[int, ...]] = []

    def add(self, facets: Facets, event: int, first: int, *own: int) -> int:
        """Add the facets of an entity, starting at position `first` of its event; return the next position."""
        self._names += facets
        self._facets += facets.values()
        self._groups.append((len(facets), event, first, *own))
        return first + len(facets)

    def batch(self, events: pa.RecordBatch, uuid_prefixes: Sequence[str], *own: pa.RecordBatch) -> pa.RecordBatch:
        """Build the batch and reset. Further numbers of a group are row indices into `own`."""
        sizes, parents, firsts, *numbers = _transpose(self._groups, 3 + len(own))
        rows = parents.repeat(sizes)
        facets = StringBuffer(self._facets)
        event_values = events.select([_EVENT_COLUMN_OF.get(name, name) for name in self._event_columns]).take(
            pa.array(rows)
        )
        columns = {
            **dict(zip(self._event_columns, event_values.columns, strict=True)),
            "uuid": build_facet_uuids(uuid_prefixes, rows, _concat_ranges(firsts, sizes)),
            "name": pa.array(self._names, pa.string()),
            "facet": facets.to_arrow(),
            "large_facet_bytes": pa.nulls(len(facets), pa.int64()),
            "facet_error": self._validator.find_errors(self._names, facets),
        }
        for number, named in zip(numbers, own, strict=True):
            repeated = named.take(pa.array(number.repeat(sizes)))
            columns |= zip(named.schema.names, repeated.columns, strict=True)
        self._reset()
        return _batch(columns, self._table)


class LineageTableBuilder:
    """Builds the batches of `lineage_events` and the facet tables."""

    def __init__(self) -> None:
        self._run = _FacetTableBuilder(RUN_FACETS, RUN_FACET_SPECS)
        self._job = _FacetTableBuilder(JOB_FACETS, JOB_FACET_SPECS)
        self._dataset = _FacetTableBuilder(DATASET_FACETS, DATASET_FACET_SPECS, *_DATASET_COLUMNS, "direction", "type")
        self._reset()

    def _reset(self) -> None:
        self._events: list[tuple[Any, ...]] = []
        # Namespace, name and version; per event its inputs, its outputs and the subject of a DatasetEvent.
        self._datasets: list[tuple[str, str, str | None]] = []

    def add_raw(self, event: Event, received: ReceivedEvent) -> None:
        """Add an event without its facets, which a backfill adds later."""
        self._events.append(_event_row(event, received, len(self._datasets), is_raw_only=True))
        self._datasets += map(_identity, chain(event.inputs or (), event.outputs or ()))

    def add(self, event: Event, received: ReceivedEvent) -> None:
        """Add an event with its facets."""
        number, position = len(self._events), 0
        self._events.append(_event_row(event, received, len(self._datasets)))
        if event.run is not None and event.run.facets:
            position = self._run.add(event.run.facets, number, position)
        if event.job is not None and event.job.facets:
            position = self._job.add(event.job.facets, number, position)
        if event.inputs:
            position = self._add_datasets(event.inputs, _INPUT, number, position)
        if event.outputs:
            position = self._add_datasets(event.outputs, _OUTPUT, number, position)
        if event.dataset is not None:
            self._add_datasets([event.dataset], _NONE, number, position)

    def _add_datasets(self, datasets: Sequence[Dataset], direction: int, number: int, position: int) -> int:
        add = self._dataset.add
        for dataset in datasets:
            owner = len(self._datasets), direction
            self._datasets.append(_identity(dataset))
            if dataset.facets:
                position = add(dataset.facets, number, position, *owner, _NONE)
            if dataset.input_facets:
                position = add(dataset.input_facets, number, position, *owner, _INPUT)
            if dataset.output_facets:
                position = add(dataset.output_facets, number, position, *owner, _OUTPUT)
        return position

    def drain(self) -> dict[str, pa.RecordBatch]:
        """Return the batches of the events added since the last call, by table."""
        if not self._events:
            return {}
        *event_columns, firsts, inputs, outputs = zip(*self._events, strict=True)
        columns = dict(zip(_EVENT_COLUMNS, map(_array, _EVENT_COLUMNS, event_columns), strict=True))
        datasets = _datasets(self._datasets)
        first, read, written = (np.array(numbers, np.int64) for numbers in (firsts, inputs, outputs))
        columns |= {
            "inputs": _list_column(datasets, first, read),
            "outputs": _list_column(datasets, first + read, written),
        }
        events = _batch(columns, LINEAGE_EVENTS)
        self._reset()
        prefixes = list(map(uuid_prefix, event_columns[0]))
        dataset_batch = pa.RecordBatch.from_arrays(datasets.flatten(), _DATASET_COLUMNS)
        facets = {
            RUN_FACETS.name: self._run.batch(events, prefixes),
            JOB_FACETS.name: self._job.batch(events, prefixes),
            DATASET_FACETS.name: self._dataset.batch(events, prefixes, dataset_batch, _DIRECTIONS, _TYPES),
        }
        return {LINEAGE_EVENTS.name: events, **split_large_facets(facets)}


def _event_row(
    event: Event, received: ReceivedEvent, first: int, *, is_raw_only: bool | None = None
) -> tuple[Any, ...]:
    """Return the columns of an event in order, then the index of its first dataset and its input and output counts."""
    job, dataset = event.job, event.dataset
    return (
        received.event_id,
        received.seq,
        received.received_at,
        None if event.run is None else event.run.run_id,
        event.time,
        event.event_type,
        received.body,
        None if job is None else job.name,
        None if job is None else job.namespace,
        event.producer,
        event.kind,
        received.source,
        event.schema_url,
        event.session_id,
        event.execution_id,
        None if dataset is None else dataset.namespace,
        None if dataset is None else dataset.name,
        is_raw_only,
        received.metadata,
        first,
        len(event.inputs or ()),
        len(event.outputs or ()),
    )


def _array(name: str, values: tuple[Any, ...]) -> pa.Array:
    if name == "event":
        # The event was validated as UTF-8 when it was decoded.
        return StringBuffer(values).to_arrow()
    return pa.array(values, LINEAGE_EVENTS.schema.field(name).type)


def _identity(dataset: Dataset) -> tuple[str, str, str | None]:
    return dataset.namespace, dataset.name, parse_dataset_version(dataset.facets)


def _datasets(identities: Sequence[tuple[str, str, str | None]]) -> pa.StructArray:
    fields = _DATASET_LIST_TYPE.value_type.fields
    columns = list(zip(*identities, strict=True)) or [()] * len(fields)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _list_column(datasets: pa.StructArray, firsts: np.ndarray, sizes: np.ndarray) -> pa.ListArray:
    """Build a list column: one range of datasets per event."""
    ends = np.cumsum(sizes, dtype=np.int32)
    values = datasets.take(pa.array(_concat_ranges(firsts, sizes)))
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([np.zeros(1, np.int32), ends])), values, type=_DATASET_LIST_TYPE
    )


def _batch(columns: Mapping[str, pa.Array], table: Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([columns[name] for name in table.schema.names], schema=table.schema)


def _transpose(groups: Sequence[tuple[int, ...]], width: int) -> np.ndarray:
    return np.fromiter(chain.from_iterable(groups), np.int64, width * len(groups)).reshape(-1, width).T


def _concat_ranges(firsts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Concatenate the ranges [first, first + size)."""
    before = np.cumsum(sizes) - sizes
    numbers: np.ndarray = (firsts - before).repeat(sizes)
    return numbers + np.arange(len(numbers))


class EventTableBuilder:
    """Builds the batches of all event tables."""

    def __init__(self) -> None:
        self._lineage = LineageTableBuilder()
        self._reset()

    def _reset(self) -> None:
        self._other_rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in _OTHER_TABLES}

    def add(self, event: Event | RuntimeEvent | DataFrameEvent, received: ReceivedEvent) -> None:
        """Add a decoded event."""
        if isinstance(event, Event):
            self._lineage.add(event, received)
        else:
            table = RUNTIME_EVENTS if isinstance(event, RuntimeEvent) else DATAFRAME_EVENTS
            self._other_rows[table.name].append(notebook_row(event, received))

    def add_raw(self, event: Event, received: ReceivedEvent) -> None:
        """Add an event without its facets, which a backfill adds later."""
        self._lineage.add_raw(event, received)

    def reject(self, error: RejectedError, stream: str, received: ReceivedEvent) -> None:
        """Add an event that could not be decoded, with the reason."""
        reason = {"stream": stream, "source": received.source, "reason": error.reason, "detail": error.detail}
        self._other_rows["rejected_events"].append({**_origin(received), **reason, "body": bytes(received.body)})

    def drain(self) -> dict[str, pa.RecordBatch]:
        """Return the batches of the events added since the last call, by table."""
        batches = {
            table.name: pa.RecordBatch.from_pylist(self._other_rows[table.name], schema=table.schema)
            for table in _OTHER_TABLES
            if self._other_rows[table.name]
        }
        self._reset()
        return {**self._lineage.drain(), **batches}


_OTHER_TABLES = (RUNTIME_EVENTS, DATAFRAME_EVENTS, REJECTED_EVENTS)


def _origin(received: ReceivedEvent) -> dict[str, Any]:
    return {
        "event_id": received.event_id,
        "seq": received.seq,
        "received_at": received.received_at,
        "source_metadata": received.metadata,
    }
