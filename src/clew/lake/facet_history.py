"""History of a facet of an entity, from the facet tables."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import reduce
from operator import and_
from typing import Any, Final, Literal

import pyarrow.compute as pc
from msgspec import Raw, Struct

from clew.events.deletion import is_deleted
from clew.events.facet_order import FacetOrder
from clew.events.openlineage import FACET_ALIASES
from clew.events.timestamps import to_epoch_micros
from clew.lake.delta import Lake
from clew.lake.facet_rows import read_facet_rows_where
from clew.lake.scan import ValueRange, scan_range
from clew.lake.tables import DATASET_FACETS, JOB_FACETS, RUN_FACETS

# Newest rows that are read for one facet.
MAX_HISTORY_ROWS: Final = 5_000

EntityKind = Literal["dataset", "job", "run"]
Row = dict[str, Any]
_TABLES = {
    "dataset": (DATASET_FACETS, ("dataset_namespace", "dataset_name"), "dataset_name"),
    "job": (JOB_FACETS, ("job_namespace", "job_name"), "job_name"),
    "run": (RUN_FACETS, ("run_uuid",), "run_uuid"),
}


class FacetState(Struct, frozen=True, rename="camel"):
    """A value of a facet with its first and last event and their number; `facet` is null while it is deleted."""

    facet: Raw | None
    first_at: datetime
    last_at: datetime
    first_run_id: str | None
    last_run_id: str | None
    events: int


def read_facet_history(lake: Lake, kind: EntityKind, identity: tuple[str, ...], name: str) -> list[FacetState]:
    """Read the states of a facet, newest first; consecutive events with an equal facet are one state."""
    table, keys, column = _TABLES[kind]
    names = {name, *(alias for alias, canonical in FACET_ALIASES.items() if canonical == name)}
    value_range = ValueRange(column, identity[-1], identity[-1])
    condition = reduce(and_, (pc.field(key) == part for key, part in zip(keys, identity, strict=True)))
    condition = condition & pc.field("name").isin(list(names))
    positions = scan_range(lake, table, value_range).to_table(columns=["seq"], filter=condition)["seq"].to_pylist()
    if len(positions) > MAX_HISTORY_ROWS:
        condition = condition & (pc.field("seq") >= sorted(positions)[-MAX_HISTORY_ROWS])
    rows = read_facet_rows_where(lake, table, value_range, condition).to_pylist()
    order = lake.facet_order
    return list(_states(sorted(rows, key=lambda row: _sort_key(row, order))))[::-1]


def _sort_key(row: Row, order: FacetOrder) -> tuple[tuple[int, int], str]:
    return order.sort_key(row["seq"], to_epoch_micros(row["lineage_event_time"])), row["uuid"]


def _states(rows: Iterable[Row]) -> Iterable[FacetState]:
    group: list[Row] = []
    for row in rows:
        if group and group[-1]["facet"] != row["facet"]:
            yield _state(group)
            group = []
        group.append(row)
    if group:
        yield _state(group)


def _state(rows: list[Row]) -> FacetState:
    body = rows[-1]["facet"].encode()
    times = [row["lineage_event_time"] for row in rows]
    return FacetState(
        facet=None if is_deleted(body) else Raw(body),
        first_at=min(times),
        last_at=max(times),
        first_run_id=rows[0]["run_uuid"],
        last_run_id=rows[-1]["run_uuid"],
        events=len(rows),
    )
