"""The stored OpenLineage events of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from clew.lake.delta import Lake
from clew.lake.scan import ValueRange, iter_by_seq, scan_range
from clew.lake.tables import LINEAGE_EVENTS


def read_run_events(lake: Lake, run_uuid: str, session_id: str | None = None) -> Iterator[bytes]:
    """Read the events of a run, or of all runs of a notebook session, in the order received."""
    # Files are not sorted by session: all are scanned, but only one column.
    condition = pc.field("session_id") == session_id if session_id else pc.field("run_uuid") == run_uuid
    value_range = ValueRange("seq", 0, 2**63 - 1) if session_id else ValueRange("run_uuid", run_uuid, run_uuid)
    rows = scan_range(lake, LINEAGE_EVENTS, value_range).to_table(columns=["seq", "event"], filter=condition)
    for row in iter_by_seq(rows):
        yield row["event"]
