"""OpenLineage events as rows: one per event, one per facet.

What facets share, because they are of one event or one dataset, is written once and spread over them by Arrow's `take`:
with 14 facets per event, appending the same run id 14 times in Python was the larger part of the cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Raw

from clew.events.facet_shapes import DATASET_SHAPES, JOB_SHAPES, RUN_SHAPES, Shape
from clew.events.openlineage import Dataset, Event, Facets, version_of
from clew.lake.arrival import Arrival
from clew.lake.facet_uuids import FacetUuids
from clew.lake.flaws import Flaws
from clew.lake.large_facets import set_apart
from clew.lake.tables import DATASET_FACETS, JOB_FACETS, LINEAGE_EVENTS, RUN_FACETS, Table
from clew.lake.texts import Texts

# Columns of a facet table that say of the facet what another column says of its event.
_OF_EVENT = {
    "created_at": "received_at",
    "lineage_event_time": "event_time",
    "lineage_event_type": "event_type",
}
_COLUMNS = tuple(name for name in LINEAGE_EVENTS.schema.names if name not in ("inputs", "outputs"))
_DATASETS = LINEAGE_EVENTS.schema.field("inputs").type
_OF_DATASET = tuple(f"dataset_{field.name}" for field in _DATASETS.value_type)
# Groups of facets name these by their place.
_DIRECTIONS = pa.record_batch({"direction": [None, "INPUT", "OUTPUT"]})
_TYPES = pa.record_batch({"type": ["DATASET", "INPUT", "OUTPUT"]})
_NONE, _INPUT, _OUTPUT = range(3)


class _FacetGroups:
    """The facets of one table, in groups: those of one entity in one event stand together."""

    def __init__(self, table: Table, shapes: Mapping[str, Shape], *own: str) -> None:
        self._table = table
        others = {"uuid", "name", "facet", "facet_bytes", "flaw", *own}
        self._of_event = [name for name in table.schema.names if name not in others]
        self._flaws = Flaws(shapes)
        self._begin()

    def _begin(self) -> None:
        self._names: list[str] = []
        # Their bodies alone are kept: what held them is free, and at hand, for the next event.
        self._facets: list[Raw] = []
        self._groups: list[tuple[int, ...]] = []

    def add(self, facets: Facets, event: int, first: int, *own: int) -> int:
        """Take the facets of an event from the place of the first in it; gives the place of the next."""
        self._names += facets
        self._facets += facets.values()
        self._groups.append((len(facets), event, first, *own))
        return first + len(facets)

    def batch(self, events: pa.RecordBatch, uuids: FacetUuids, *own: pa.RecordBatch) -> pa.RecordBatch:
        """The rows collected. Each further number that a group has names a row of one of `own`."""
        sizes, parents, firsts, *numbers = _columns_of(self._groups, 3 + len(own))
        rows = parents.repeat(sizes)
        facets = Texts(self._facets)
        of_event = events.select([_OF_EVENT.get(name, name) for name in self._of_event]).take(pa.array(rows))
        columns = {
            **dict(zip(self._of_event, of_event.columns, strict=True)),
            "uuid": uuids.of(rows, _following(firsts, sizes)),
            "name": pa.array(self._names, pa.string()),
            "facet": facets.to_arrow(),
            "facet_bytes": pa.nulls(len(facets), pa.int64()),
            "flaw": self._flaws.of(self._names, facets),
        }
        for number, named in zip(numbers, own, strict=True):
            taken = named.take(pa.array(number.repeat(sizes)))
            columns |= zip(named.schema.names, taken.columns, strict=True)
        self._begin()
        return _batch(columns, self._table)


class LineageRows:
    """Collects events and gives the rows of four tables."""

    def __init__(self) -> None:
        self._run = _FacetGroups(RUN_FACETS, RUN_SHAPES)
        self._job = _FacetGroups(JOB_FACETS, JOB_SHAPES)
        self._dataset = _FacetGroups(DATASET_FACETS, DATASET_SHAPES, *_OF_DATASET, "direction", "type")
        self._begin()

    def _begin(self) -> None:
        self._events: list[tuple[Any, ...]] = []
        # Namespace, name and version: of each event its inputs, its outputs and what it is about.
        self._datasets: list[tuple[str, str, str | None]] = []

    def add_raw(self, event: Event, arrival: Arrival) -> None:
        """Take one event and leave its facets to a backfill."""
        self._events.append(_event_row(event, arrival, len(self._datasets), is_raw_only=True))
        self._datasets += map(_identity, chain(event.inputs or (), event.outputs or ()))

    def add(self, event: Event, arrival: Arrival) -> None:
        """Take one event."""
        number, place = len(self._events), 0
        self._events.append(_event_row(event, arrival, len(self._datasets)))
        if event.run is not None and event.run.facets:
            place = self._run.add(event.run.facets, number, place)
        if event.job is not None and event.job.facets:
            place = self._job.add(event.job.facets, number, place)
        if event.inputs:
            place = self._add_datasets(event.inputs, _INPUT, number, place)
        if event.outputs:
            place = self._add_datasets(event.outputs, _OUTPUT, number, place)
        if event.dataset is not None:
            self._add_datasets([event.dataset], _NONE, number, place)

    def _add_datasets(self, datasets: Sequence[Dataset], direction: int, number: int, place: int) -> int:
        add = self._dataset.add
        for dataset in datasets:
            whose = len(self._datasets), direction
            self._datasets.append(_identity(dataset))
            if dataset.facets:
                place = add(dataset.facets, number, place, *whose, _NONE)
            if dataset.input_facets:
                place = add(dataset.input_facets, number, place, *whose, _INPUT)
            if dataset.output_facets:
                place = add(dataset.output_facets, number, place, *whose, _OUTPUT)
        return place

    def batches(self) -> dict[str, pa.RecordBatch]:
        """The rows collected since the last time, by table."""
        if not self._events:
            return {}
        *of_events, firsts, inputs, outputs = zip(*self._events, strict=True)
        columns = dict(zip(_COLUMNS, map(_array, _COLUMNS, of_events), strict=True))
        datasets = _datasets(self._datasets)
        first, read, written = (np.array(numbers, np.int64) for numbers in (firsts, inputs, outputs))
        columns |= {"inputs": _listed(datasets, first, read), "outputs": _listed(datasets, first + read, written)}
        events = _batch(columns, LINEAGE_EVENTS)
        self._begin()
        uuids = FacetUuids(of_events[0])
        of_dataset = pa.RecordBatch.from_arrays(datasets.flatten(), _OF_DATASET)
        facets = {
            RUN_FACETS.name: self._run.batch(events, uuids),
            JOB_FACETS.name: self._job.batch(events, uuids),
            DATASET_FACETS.name: self._dataset.batch(events, uuids, of_dataset, _DIRECTIONS, _TYPES),
        }
        return {LINEAGE_EVENTS.name: events, **set_apart(facets)}


def _event_row(event: Event, arrival: Arrival, first: int, *, is_raw_only: bool | None = None) -> tuple[Any, ...]:
    """The columns of an event in their order, then the place of its first dataset and how many it read and wrote."""
    job, dataset = event.job, event.dataset
    return (
        arrival.event_id,
        arrival.seq,
        arrival.received_at,
        None if event.run is None else event.run.run_id,
        event.time,
        event.event_type,
        arrival.body,
        None if job is None else job.name,
        None if job is None else job.namespace,
        event.producer,
        event.kind,
        arrival.source,
        event.schema_url,
        event.session_id,
        event.execution_id,
        None if dataset is None else dataset.namespace,
        None if dataset is None else dataset.name,
        is_raw_only,
        first,
        len(event.inputs or ()),
        len(event.outputs or ()),
    )


def _array(name: str, values: tuple[Any, ...]) -> pa.Array:
    if name == "event":
        # The whole event was checked to be UTF-8 when it was opened, so its parts need no second check.
        return Texts(values).to_arrow()
    return pa.array(values, LINEAGE_EVENTS.schema.field(name).type)


def _identity(dataset: Dataset) -> tuple[str, str, str | None]:
    return dataset.namespace, dataset.name, version_of(dataset.facets)


def _datasets(identities: Sequence[tuple[str, str, str | None]]) -> pa.StructArray:
    fields = _DATASETS.value_type.fields
    columns = list(zip(*identities, strict=True)) or [()] * len(fields)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _listed(datasets: pa.StructArray, firsts: np.ndarray, sizes: np.ndarray) -> pa.ListArray:
    """A list for each event, of datasets that follow one another."""
    ends = np.cumsum(sizes, dtype=np.int32)
    values = datasets.take(pa.array(_following(firsts, sizes)))
    return pa.ListArray.from_arrays(pa.array(np.concatenate([np.zeros(1, np.int32), ends])), values, type=_DATASETS)


def _batch(columns: Mapping[str, pa.Array], table: Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([columns[name] for name in table.schema.names], schema=table.schema)


def _columns_of(groups: Sequence[tuple[int, ...]], width: int) -> np.ndarray:
    return np.fromiter(chain.from_iterable(groups), np.int64, width * len(groups)).reshape(-1, width).T


def _following(firsts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """As many numbers from each of the first ones on as its size says."""
    before = np.cumsum(sizes) - sizes
    numbers: np.ndarray = (firsts - before).repeat(sizes)
    return numbers + np.arange(len(numbers))
