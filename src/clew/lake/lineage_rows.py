"""OpenLineage events as rows: one per event, one per facet.

Per-event columns are written once and spread over an event's facets by Arrow's `take`: with 14 facets per event,
appending the same run id 14 times in Python was the larger part of the cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from clew.events.facet_shapes import DATASET_SHAPES, JOB_SHAPES, RUN_SHAPES, Shape
from clew.events.identity import facet_ordinal, facet_uuid_stem
from clew.events.openlineage import Dataset, Event, Facets, version_of
from clew.lake.arrival import Arrival
from clew.lake.flaws import flaws
from clew.lake.large_facets import set_apart
from clew.lake.tables import DATASET_FACETS, JOB_FACETS, LINEAGE_EVENTS, RUN_FACETS, Table
from clew.lake.texts import Texts

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
        self._group: list[int] = []
        self._ordinal: list[int] = []
        self._name: list[str] = []
        self._facet: list[Raw] = []

    def add(self, parent: int, ordinal: int, facets: Facets, *own: str | None) -> int:
        count = len(facets)
        self._group += [len(self._groups)] * count
        self._groups.append((parent, *own))
        self._ordinal += range(ordinal, ordinal + count)
        self._name += facets
        self._facet += facets.values()
        return ordinal + count

    def batch(self, table: Table, events: dict[str, pa.Array]) -> pa.RecordBatch:
        group = pa.array(self._group, pa.int32())
        shared = list(zip(*self._groups, strict=True)) or [()] * (1 + len(self._own))
        rows = pa.array(shared[0], pa.int32()).take(group)
        facets = Texts(self._facet)
        own = zip(self._own, shared[1:], strict=True)
        columns = {
            "uuid": pc.binary_join_element_wise(events[_STEM].take(rows), _ordinals(self._ordinal), ""),
            "name": pa.array(self._name, pa.string()),
            "facet": facets.to_arrow(),
            "facet_bytes": pa.nulls(len(facets), pa.int64()),
            "flaw": flaws(self._name, facets, self._shapes),
            **{column: pa.array(values, pa.string()).take(group) for column, values in own},
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
        self._events.append((*_event_row(event, arrival), True, facet_uuid_stem(arrival.event_id)))

    def add(self, event: Event, arrival: Arrival) -> None:
        """Take one event."""
        parent = len(self._events)
        self._events.append((*_event_row(event, arrival), None, facet_uuid_stem(arrival.event_id)))
        ordinal = 0
        if event.run is not None and event.run.facets:
            ordinal = self._run.add(parent, ordinal, event.run.facets)
        if event.job is not None and event.job.facets:
            ordinal = self._job.add(parent, ordinal, event.job.facets)
        subjects = () if event.dataset is None else (event.dataset,)
        for direction, datasets in (("INPUT", event.inputs), ("OUTPUT", event.outputs), (None, subjects)):
            for dataset in datasets or ():
                ordinal = self._add_dataset(dataset, direction, ordinal, parent)

    def _add_dataset(self, dataset: Dataset, direction: str | None, ordinal: int, parent: int) -> int:
        identity = dataset.namespace, dataset.name, version_of(dataset.facets), direction
        kinds = (("DATASET", dataset.facets), ("INPUT", dataset.input_facets), ("OUTPUT", dataset.output_facets))
        for kind, facets in kinds:
            if facets:
                ordinal = self._dataset.add(parent, ordinal, facets, *identity, kind)
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
        _identities(event.inputs),
        _identities(event.outputs),
    )


def _array(name: str, values: tuple[Any, ...]) -> pa.Array:
    if name == "event":
        # The whole event was checked to be UTF-8 when it was opened, so its parts need no second check.
        return Texts(values).to_arrow()
    return pa.array(values, pa.string() if name == _STEM else LINEAGE_EVENTS.schema.field(name).type)


def _spread(events: dict[str, pa.Array], name: str, rows: pa.Array) -> pa.Array:
    return events[_OF_EVENT.get(name, name)].take(rows)


def _ordinals(places: Sequence[int]) -> pa.Array:
    if max(places, default=0) < len(_ORDINALS):
        return _ORDINALS.take(pa.array(places, pa.int32()))
    return pa.array(map(facet_ordinal, places), pa.string())


def _identities(datasets: list[Dataset] | None) -> list[tuple[str, str, str | None]]:
    return [(dataset.namespace, dataset.name, version_of(dataset.facets)) for dataset in datasets or ()]
