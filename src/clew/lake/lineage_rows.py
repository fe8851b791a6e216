"""OpenLineage events as rows: one per event, one per facet.

Per-event columns are written once and spread over an event's facets by Arrow's `take`: with 14 facets per event,
appending the same run id 14 times in Python was the larger part of the cost.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from clew.events.identity import facet_ordinal, facet_uuid_stem
from clew.events.openlineage import Dataset, Event, Facets, version_of
from clew.lake.arrival import Arrival
from clew.lake.tables import DATASET_FACETS, JOB_FACETS, LINEAGE_EVENTS, RUN_FACETS, Table

_STEM = "uuid_stem"
# Columns of a facet table that say of the facet what another column says of its event.
_OF_EVENT = {
    "created_at": "received_at",
    "lineage_event_time": "event_time",
    "lineage_event_type": "event_type",
}
_COLUMNS = (*LINEAGE_EVENTS.schema.names, _STEM)


class _FacetColumns:
    """The columns of a facet table that differ from facet to facet, and the event that each row belongs to."""

    def __init__(self, *own: str) -> None:
        self.parent: list[int] = []
        self.ordinal: list[str] = []
        self.name: list[str] = []
        self.facet: list[bytes] = []
        self.own: tuple[tuple[str, list[str | None]], ...] = tuple((column, []) for column in own)

    def add(self, parent: int, ordinal: int, facets: Facets, *own: str | None) -> int:
        count = len(facets)
        self.parent += [parent] * count
        self.ordinal += map(facet_ordinal, range(ordinal, ordinal + count))
        self.name += facets
        self.facet += map(bytes, facets.values())
        for (_, values), value in zip(self.own, own, strict=True):
            values.extend([value] * count)
        return ordinal + count

    def batch(self, table: Table, events: dict[str, pa.Array]) -> pa.RecordBatch:
        rows = pa.array(self.parent, pa.int32())
        ordinals = pa.array(self.ordinal, pa.string())
        columns = {
            "uuid": pc.binary_join_element_wise(events[_STEM].take(rows), ordinals, ""),
            "name": pa.array(self.name, pa.string()),
            "facet": _texts(self.facet),
            **{column: pa.array(values, pa.string()) for column, values in self.own},
        }
        ordered = [columns[name] if name in columns else _spread(events, name, rows) for name in table.schema.names]
        return pa.RecordBatch.from_arrays(ordered, schema=table.schema)


class LineageRows:
    """Collects events and gives the rows of four tables."""

    def __init__(self) -> None:
        self._events: list[tuple[Any, ...]] = []
        self._run = _FacetColumns()
        self._job = _FacetColumns()
        self._dataset = _FacetColumns("dataset_namespace", "dataset_name", "dataset_version", "direction", "type")

    def add(self, event: Event, arrival: Arrival) -> None:
        """Take one event."""
        parent = len(self._events)
        self._events.append(_event_row(event, arrival))
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
        return {
            LINEAGE_EVENTS.name: pa.RecordBatch.from_arrays(ordered, schema=LINEAGE_EVENTS.schema),
            RUN_FACETS.name: self._run.batch(RUN_FACETS, columns),
            JOB_FACETS.name: self._job.batch(JOB_FACETS, columns),
            DATASET_FACETS.name: self._dataset.batch(DATASET_FACETS, columns),
        }


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
        facet_uuid_stem(arrival.event_id),
    )


def _array(name: str, values: tuple[Any, ...]) -> pa.Array:
    if name == "event":
        return _texts(values)
    return pa.array(values, pa.string() if name == _STEM else LINEAGE_EVENTS.schema.field(name).type)


def _spread(events: dict[str, pa.Array], name: str, rows: pa.Array) -> pa.Array:
    return events[_OF_EVENT.get(name, name)].take(rows)


def _texts(bodies: list[bytes] | tuple[bytes, ...]) -> pa.Array:
    # The whole event was checked to be UTF-8 when it was opened, so its parts need no second check.
    return pa.array(bodies, pa.binary()).view(pa.string())


def _identities(datasets: list[Dataset] | None) -> list[tuple[str, str, str | None]]:
    return [(dataset.namespace, dataset.name, version_of(dataset.facets)) for dataset in datasets or ()]
