"""Recent rejected events."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from clew.lake.delta import Lake
from clew.lake.tables import REJECTED_EVENTS

_MAX_SHOWN = 5


def recent_rejections(lake: Lake, count: int) -> list[dict[str, Any]]:
    """Return source, reason and detail of the newest rejected events, at most `_MAX_SHOWN`."""
    table = lake.table(REJECTED_EVENTS.name)
    if table is None or count == 0:
        return []
    columns, filesystem = ["seq", "source", "reason", "detail"], lake.storage.filesystem(REJECTED_EVENTS.name)
    rows = table.to_pyarrow_table(columns=columns, filesystem=filesystem)
    newest = rows.take(pc.sort_indices(rows, sort_keys=[("seq", "descending")])).slice(0, min(count, _MAX_SHOWN))
    rejections: list[dict[str, Any]] = newest.select(["source", "reason", "detail"]).to_pylist()
    return rejections
