"""Events into the rows of every event table. No Spark here: workers, tests and tools all call it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Event
from clew.events.rejection import RejectedError
from clew.lake.arrival import Arrival
from clew.lake.lineage_rows import LineageRows
from clew.lake.notebook_rows import dataframe_row, runtime_row
from clew.lake.tables import DATAFRAME_EVENTS, REJECTED_EVENTS, RUNTIME_EVENTS


class EventRows:
    """Collects the rows that events add to each table."""

    def __init__(self) -> None:
        self._lineage = LineageRows()
        self._begin()

    def _begin(self) -> None:
        self._others: dict[str, list[dict[str, Any]]] = {table.name: [] for table in _OTHERS}

    def add(self, event: Event | RuntimeEvent | DataFrameEvent, arrival: Arrival) -> None:
        """Take an event that could be opened."""
        if isinstance(event, Event):
            self._lineage.add(event, arrival)
        elif isinstance(event, RuntimeEvent):
            self._others["runtime_events"].append({**_origin(arrival), **runtime_row(event), **_text(arrival)})
        else:
            self._others["dataframe_events"].append({**_origin(arrival), **dataframe_row(event), **_text(arrival)})

    def add_raw(self, event: Event, arrival: Arrival) -> None:
        """Take an event whose facets are left to a backfill."""
        self._lineage.add_raw(event, arrival)

    def reject(self, fault: RejectedError, stream: str, arrival: Arrival) -> None:
        """Take an event that could not."""
        why = {"stream": stream, "source": arrival.source, "reason": fault.reason, "detail": fault.detail}
        self._others["rejected_events"].append({**_origin(arrival), **why, "body": bytes(arrival.body)})

    def batches(self) -> dict[str, pa.RecordBatch]:
        """The rows collected since the last time, by table."""
        others = {
            table.name: pa.RecordBatch.from_pylist(self._others[table.name], schema=table.schema)
            for table in _OTHERS
            if self._others[table.name]
        }
        self._begin()
        return {**self._lineage.batches(), **others}


_OTHERS = (RUNTIME_EVENTS, DATAFRAME_EVENTS, REJECTED_EVENTS)


def _origin(arrival: Arrival) -> dict[str, Any]:
    return {"event_id": arrival.event_id, "seq": arrival.seq, "received_at": arrival.received_at}


def _text(arrival: Arrival) -> dict[str, str]:
    return {"event": str(arrival.body, "utf-8")}
