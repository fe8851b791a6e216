"""The OpenLineage events of a run, byte for byte as they came."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from clew.lake.delta import Lake
from clew.lake.scan import Span, in_order_received, rows_within
from clew.lake.tables import LINEAGE_EVENTS


def events_of(lake: Lake, run_uuid: str, session_id: str | None = None) -> Iterator[bytes]:
    """The events of a run in the order received; of a notebook's session, those of all its runs."""
    # Files have no statistics of sessions: all of them are looked through, but only for one column.
    wanted = pc.field("session_id") == session_id if session_id else pc.field("run_uuid") == run_uuid
    span = Span("seq", 0, 2**63 - 1) if session_id else Span("run_uuid", run_uuid, run_uuid)
    rows = rows_within(lake, LINEAGE_EVENTS, span).to_table(columns=["seq", "event"], filter=wanted)
    for row in in_order_received(rows):
        yield row["event"]
