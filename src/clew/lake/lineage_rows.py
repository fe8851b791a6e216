"""OpenLineage events as rows: one per event, one per facet.

Per-event columns are written once and spread over an event's facets by Arrow's `take`: with 14 facets per event,
appending the same run id 14 times in Python was the larger part of the cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clew.events.facet_shapes import DATASET_SHAPES, JOB_SHAPES, RUN_SHAPES, Shape
from clew.events.identity import facet_ordinal, facet_uuid_stem
from clew.events.openlineage import Dataset, Event, Facets, version_of
from clew.lake.arrival import Arrival
from clew.lake.flaws import flaws
from clew.lake.large_facets import set_apart
from clew.lake.tables import DATASET_FACETS, JOB_FACETS, LINEAGE_EVENTS, RUN_FACETS, Table
from clew.lake.texts import Texts

# Namespace, name and version of a dataset.
_Identity = tuple[str, str, str | None]

_STEM = "uuid_stem"
# Columns of a facet table that say of the facet what another column says of its event.
_OF_EVENT = {
    "created_at": "received_at",
    "lineage_event_time": "event_time",
    "lineage_event_type": "event_type",
}
_ORDINALS = pa.array(map(facet_ordinal, range(4096)), pa.string())
_COLUMNS = (*LINEAGE_EVENTS.schema.names, _STEM)


class _FacetColumns:
    """The facets of one table, in groups: what the facets of one entity in one event share is written once."""

    def __init__(self, shapes: Mapping[str, Shape], *own: str) -> None:
        self._shapes = shapes
        self._own = own
        self._groups: list[tuple[Any, ...]] = []

    def add(self, parent: int, ordinal: int, facets: Facets | None, *own: str | None) -> int:
        """Take a group whose first facet has that ordinal in its event; gives the ordinal of the next group's first."""
        if not facets:
            return ordinal
        self._groups.append((parent, ordinal, facets, *own))
        return ordinal + len(facets)

    def batch(self, table: Table, events: dict[str, pa.Array]) -> pa.RecordBatch:
        parents, ordinals, groups, *own = list(zip(*self._groups, strict=True)) or [()] * (3 + len(self._own))
        sizes = np.fromiter(map(len, groups), np.int32, len(groups))
        group = pa.array(np.repeat(np.arange(len(groups), dtype=np.int32), sizes))
        rows = pa.array(parents, pa.int32()).take(group)
        names = list(chain.from_iterable(groups))
        facets = Texts(list(chain.from_iterable(map(dict.values, groups))))
        columns = {
            "uuid": pc.binary_join_element_wise(events[_STEM].take(rows), _ordinals(ordinals, sizes), ""),
            "name": pa.array(names, pa.string()),
            "facet": facets.to_arrow(),
            "facet_bytes": pa.nulls(len(facets), pa.int64()),
            "flaw": flaws(names, facets, self._shapes),
            **{
                column: pa.array(values, pa.string()).take(group) for column, values in zip(self._own, own, strict=True)
            },
        }
        ordered = [columns[name] if name in columns else _spread(events, name, rows) for name in table.schema.names]
        return pa.RecordBatch.from_arrays(ordered, schema=table.schema)


class LineageRows:
    """Collects events and gives the rows of four tables."""

    def __init__(self) -> None:
        self._events: list[tuple[Any, ...]] = []
        self._run = _FacetColumns(RUN_SHAPES)
        self._job = _FacetColumns(JOB_SHAPES)
        self._dataset = _FacetColumns(
            DATASET_SHAPES, "dataset_namespace", "dataset_name", "dataset_version", "direction", "type"
        )

    def add_raw(self, event: Event, arrival: Arrival) -> None:
        """Take one event and leave its facets to a backfill."""
        self._add_event(event, arrival, _identities(event.inputs), _identities(event.outputs), is_raw_only=True)

    def add(self, event: Event, arrival: Arrival) -> None:
        """Take one event."""
        parent, ordinal = len(self._events), 0
        inputs, outputs = _identities(event.inputs), _identities(event.outputs)
        self._add_event(event, arrival, inputs, outputs)
        if event.run is not None:
            ordinal = self._run.add(parent, ordinal, event.run.facets)
        if event.job is not None:
            ordinal = self._job.add(parent, ordinal, event.job.facets)
        if event.inputs:
            ordinal = self._add_datasets(event.inputs, inputs, "INPUT", parent, ordinal)
        if event.outputs:
            ordinal = self._add_datasets(event.outputs, outputs, "OUTPUT", parent, ordinal)
        if event.dataset is not None:
            self._add_datasets([event.dataset], [_identity(event.dataset)], None, parent, ordinal)

    def _add_event(
        self,
        event: Event,
        arrival: Arrival,
        inputs: Sequence[_Identity],
        outputs: Sequence[_Identity],
        *,
        is_raw_only: bool | None = None,
    ) -> None:
        of_event = _event_row(event, arrival)
        self._events.append((*of_event, inputs, outputs, is_raw_only, facet_uuid_stem(arrival.event_id)))

    def _add_datasets(
        self,
        datasets: Sequence[Dataset],
        identities: Sequence[_Identity],
        direction: str | None,
        parent: int,
        ordinal: int,
    ) -> int:
        add = self._dataset.add
        for dataset, identity in zip(datasets, identities, strict=True):
            if dataset.facets:
                ordinal = add(parent, ordinal, dataset.facets, *identity, direction, "DATASET")
            if dataset.input_facets:
                ordinal = add(parent, ordinal, dataset.input_facets, *identity, direction, "INPUT")
            if dataset.output_facets:
                ordinal = add(parent, ordinal, dataset.output_facets, *identity, direction, "OUTPUT")
        return ordinal

    def batches(self) -> dict[str, pa.RecordBatch]:
        """The rows collected, by table."""
        if not self._events:
            return {}
        columns = dict(zip(_COLUMNS, map(_array, _COLUMNS, zip(*self._events, strict=True)), strict=True))
        ordered = [columns[name] for name in LINEAGE_EVENTS.schema.names]
        facets = {
            RUN_FACETS.name: self._run.batch(RUN_FACETS, columns),
            JOB_FACETS.name: self._job.batch(JOB_FACETS, columns),
            DATASET_FACETS.name: self._dataset.batch(DATASET_FACETS, columns),
        }
        events = pa.RecordBatch.from_arrays(ordered, schema=LINEAGE_EVENTS.schema)
        return {LINEAGE_EVENTS.name: events, **set_apart(facets)}


def _event_row(event: Event, arrival: Arrival) -> tuple[Any, ...]:
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
    )


def _array(name: str, values: tuple[Any, ...]) -> pa.Array:
    if name == "event":
        # The whole event was checked to be UTF-8 when it was opened, so its parts need no second check.
        return Texts(values).to_arrow()
    return pa.array(values, pa.string() if name == _STEM else LINEAGE_EVENTS.schema.field(name).type)


def _spread(events: dict[str, pa.Array], name: str, rows: pa.Array) -> pa.Array:
    return events[_OF_EVENT.get(name, name)].take(rows)


def _ordinals(firsts: Sequence[int], sizes: np.ndarray) -> pa.Array:
    """The ordinals of facets that follow one another in each group."""
    before = np.cumsum(sizes) - sizes
    places = np.arange(sizes.sum()) + np.repeat(np.array(firsts, np.int64) - before, sizes)
    if places.max(initial=0) < len(_ORDINALS):
        return _ORDINALS.take(pa.array(places))
    return pa.array(map(facet_ordinal, places.tolist()), pa.string())


def _identities(datasets: list[Dataset] | None) -> list[_Identity]:
    return [_identity(dataset) for dataset in datasets or ()]


def _identity(dataset: Dataset) -> _Identity:
    return dataset.namespace, dataset.name, version_of(dataset.facets)
