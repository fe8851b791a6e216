"""Arrow batches of all event tables, built without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Event
from clew.events.rejection import RejectedError
from clew.lake.arrival import ReceivedEvent
from clew.lake.lineage_rows import LineageTableBuilder
from clew.lake.notebook_rows import dataframe_row, runtime_row
from clew.lake.tables import DATAFRAME_EVENTS, REJECTED_EVENTS, RUNTIME_EVENTS


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
        elif isinstance(event, RuntimeEvent):
            self._other_rows["runtime_events"].append(
                {**_origin(received), **runtime_row(event), **_event_text(received)}
            )
        else:
            self._other_rows["dataframe_events"].append(
                {**_origin(received), **dataframe_row(event), **_event_text(received)}
            )

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
    return {"event_id": received.event_id, "seq": received.seq, "received_at": received.received_at}


def _event_text(received: ReceivedEvent) -> dict[str, str]:
    return {"event": str(received.body, "utf-8")}
