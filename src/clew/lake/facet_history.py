"""What a facet of an entity said over time, from the facet tables."""

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
from clew.events.timestamps import microseconds
from clew.lake.delta import Lake
from clew.lake.facet_rows import facet_rows_where
from clew.lake.scan import Span, rows_within
from clew.lake.tables import DATASET_FACETS, JOB_FACETS, RUN_FACETS

# A facet that comes with every run is looked back at so far, and no further.
MOST_ROWS: Final = 5_000

EntityKind = Literal["dataset", "job", "run"]
Row = dict[str, Any]
_TABLES = {
    "dataset": (DATASET_FACETS, ("dataset_namespace", "dataset_name"), "dataset_name"),
    "job": (JOB_FACETS, ("job_namespace", "job_name"), "job_name"),
    "run": (RUN_FACETS, ("run_uuid",), "run_uuid"),
}


class FacetState(Struct, frozen=True, rename="camel"):
    """A facet as it was for a while: since which event, until which, and how many said so; null while deleted."""

    facet: Raw | None
    first_at: datetime
    last_at: datetime
    first_run_id: str | None
    last_run_id: str | None
    events: int


def facet_history(lake: Lake, kind: EntityKind, identity: tuple[str, ...], name: str) -> list[FacetState]:
    """The states of a facet, the newest first: what several events in a row say alike is one state."""
    table, keys, column = _TABLES[kind]
    names = {name, *(alias for alias, own in FACET_ALIASES.items() if own == name)}
    span = Span(column, identity[-1], identity[-1])
    wanted = reduce(and_, (pc.field(key) == part for key, part in zip(keys, identity, strict=True)))
    wanted = wanted & pc.field("name").isin(list(names))
    positions = rows_within(lake, table, span).to_table(columns=["seq"], filter=wanted)["seq"].to_pylist()
    if len(positions) > MOST_ROWS:
        wanted = wanted & (pc.field("seq") >= sorted(positions)[-MOST_ROWS])
    rows = facet_rows_where(lake, table, span, wanted).to_pylist()
    order = lake.facet_order
    return list(_states(sorted(rows, key=lambda row: _place(row, order))))[::-1]


def _place(row: Row, order: FacetOrder) -> tuple[tuple[int, int], str]:
    return order.place(row["seq"], microseconds(row["lineage_event_time"])), row["uuid"]


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
