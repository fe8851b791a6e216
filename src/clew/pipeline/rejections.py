"""Dead letters, for a person to look at."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from clew.lake.delta import Lake
from clew.lake.tables import REJECTED_EVENTS

_MOST_SHOWN = 5


def last_rejections(lake: Lake, count: int) -> list[dict[str, Any]]:
    """Source, reason and detail of the last `count` rejected events, a few at most."""
    table = lake.table(REJECTED_EVENTS.name)
    if table is None or count == 0:
        return []
    columns, filesystem = ["seq", "source", "reason", "detail"], lake.storage.filesystem(REJECTED_EVENTS.name)
    rows = table.to_pyarrow_table(columns=columns, filesystem=filesystem)
    newest = rows.take(pc.sort_indices(rows, sort_keys=[("seq", "descending")])).slice(0, min(count, _MOST_SHOWN))
    shown: list[dict[str, Any]] = newest.select(["source", "reason", "detail"]).to_pylist()
    return shown
