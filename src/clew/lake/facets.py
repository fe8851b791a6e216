"""Facets of a run or an entity, current or over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import reduce
from itertools import chain, groupby
from operator import and_, itemgetter
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw, Struct, field

from clew.errors import ClewError
from clew.events.facets import FacetOrder, is_deleted
from clew.events.openlineage import FACET_ALIASES, to_epoch_micros
from clew.lake.backfill_state import (
    MAX_RAW_BYTES,
    MAX_RAW_EVENTS,
    NO_EVENTS,
    EventSelection,
    has_pending_backfill,
    read_backfilled_ranges,
    read_pending_events,
)
from clew.lake.event_rows import LineageTableBuilder
from clew.lake.lake import Lake
from clew.lake.scan import ValueRange, scan_range
from clew.lake.schemas import DATASET_FACETS, FACET_TABLES, JOB_FACETS, LARGE_FACETS, RUN_FACETS, Table


def read_facet_rows(lake: Lake, table: Table, value_range: ValueRange, condition: pc.Expression) -> pa.Table:
    """Read the rows of a facet table that match a condition within a value range, large facets included."""
    rows = scan_range(lake, table, value_range).to_table(filter=condition)
    large = rows.filter(pc.is_valid(rows["large_facet_bytes"]))
    # Large facets are committed first and read last, so that none is missing.
    return with_large_facets(rows, _read_large_facets(lake, large)) if large.num_rows else rows


def with_large_facets(rows: pa.Table, large_facets: pa.Table) -> pa.Table:
    """Fill null facets from rows of `large_facets`."""
    bodies = dict(zip(large_facets["uuid"].to_pylist(), large_facets["facet"].to_pylist(), strict=True))
    facets = [
        bodies.get(uuid) if facet is None else facet
        for uuid, facet in zip(rows["uuid"].to_pylist(), rows["facet"].to_pylist(), strict=True)
    ]
    return rows.set_column(rows.schema.get_field_index("facet"), "facet", pa.array(facets, pa.string()))


def _read_large_facets(lake: Lake, rows: pa.Table) -> pa.Table:
    bounds = pc.min_max(rows["seq"])
    value_range = ValueRange("seq", bounds["min"].as_py(), bounds["max"].as_py())
    condition = pc.field("uuid").isin(rows["uuid"].combine_chunks())
    return scan_range(lake, LARGE_FACETS, value_range).to_table(
        columns=["uuid", "facet"], filter=value_range.filter() & condition
    )


FacetMap = dict[str, Raw]
Row = dict[str, Any]


class RunJobFacets(Struct, frozen=True):
    """Job facets in the events of a run."""

    namespace: str
    name: str
    facets: FacetMap


class RunDatasetFacets(Struct, frozen=True):
    """Facets of an input or output in the events of a run."""

    namespace: str
    name: str
    version: str | None
    facets: FacetMap = field(default_factory=dict)
    input_facets: FacetMap = field(default_factory=dict)
    output_facets: FacetMap = field(default_factory=dict)


class RunFacets(Struct, frozen=True):
    """The current facets after all events of a run."""

    run_uuid: str
    facets: FacetMap
    jobs: list[RunJobFacets]
    inputs: list[RunDatasetFacets]
    outputs: list[RunDatasetFacets]


class TooManyRawEventsError(ClewError):
    """An entity has too many raw-only events to parse on demand."""

    @classmethod
    def of(cls, entity: str) -> TooManyRawEventsError:
        """Build the error for an entity."""
        message = (
            f"The facets of {entity} are not backfilled yet, and it has more than {MAX_RAW_EVENTS:,} events or"
            f" {MAX_RAW_BYTES >> 20} MB of events: too many to parse on demand."
        )
        return cls(message, hint="Run `clew pipeline backfill`: it fills in missing facets, newest first.")


def load_run_facets(lake: Lake, run_uuid: str, order: FacetOrder = FacetOrder.RECEIVED) -> RunFacets:
    """Load the facets of a run, its job and its datasets; the last of each name wins."""
    # Raw events first: a chunk committed between the two reads is then seen twice, never missed.
    raw = _raw_only_rows(lake, EventSelection(runs=frozenset({run_uuid})), f"run {run_uuid}")
    value_range = ValueRange("run_uuid", run_uuid, run_uuid)
    is_of_run = value_range.filter()
    run, job, dataset = (
        _sorted_rows(
            chain(read_facet_rows(lake, table, value_range, is_of_run).to_pylist(), raw.get(table.name, ())), order
        )
        for table in (RUN_FACETS, JOB_FACETS, DATASET_FACETS)
    )
    by_job = _grouped(job, "job_namespace", "job_name")
    jobs = [RunJobFacets(namespace, name, merge_facet_rows(rows)) for (namespace, name), rows in by_job]
    return RunFacets(
        run_uuid=run_uuid,
        facets=merge_facet_rows(run),
        jobs=[job_facets for job_facets in jobs if job_facets.facets],
        inputs=_datasets(row for row in dataset if row["direction"] == "INPUT"),
        outputs=_datasets(row for row in dataset if row["direction"] == "OUTPUT"),
    )


def merge_facet_rows(rows: Iterable[Row]) -> FacetMap:
    """Merge ordered rows. Spec: a later facet of the same name replaces the earlier one as a whole."""
    facets: FacetMap = {}
    for row in rows:
        name: str = row["name"]
        name, body = FACET_ALIASES.get(name, name), row["facet"].encode()
        facets.pop(name, None)
        if not is_deleted(body):
            facets[name] = Raw(body)
    return facets


def _raw_only_rows(lake: Lake, selection: EventSelection, entity: str) -> dict[str, list[Row]]:
    """Build the rows that a backfill still has to write for an entity, by table."""
    backfilled = read_backfilled_ranges(lake)
    if not has_pending_backfill(lake, backfilled):
        return {}
    pending = read_pending_events(lake, backfilled, selection)
    if not pending.is_complete:
        raise TooManyRawEventsError.of(entity)
    rows = LineageTableBuilder()
    for event, received in pending.events:
        rows.add(event, received)
    return _rows_with_large_facets(rows.drain())


def _rows_with_large_facets(batches: Mapping[str, pa.RecordBatch]) -> dict[str, list[Row]]:
    tables = {name: pa.Table.from_batches([batch]) for name, batch in batches.items()}
    large = tables.get(LARGE_FACETS.name)
    facets = {table.name: tables[table.name] for table in FACET_TABLES if table.name in tables}
    return {
        name: (rows if large is None else with_large_facets(rows, large)).to_pylist() for name, rows in facets.items()
    }


def _sorted_rows(rows: Iterable[Row], order: FacetOrder) -> list[Row]:
    # UUIDs order the facets of one event.
    return sorted(
        rows, key=lambda row: (order.sort_key(row["seq"], to_epoch_micros(row["lineage_event_time"])), row["uuid"])
    )


def _grouped(rows: Iterable[Row], *keys: str) -> Iterable[tuple[tuple[Any, ...], list[Row]]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return sorted(groups.items(), key=lambda group: tuple(part or "" for part in group[0]))


def _datasets(rows: Iterable[Row]) -> list[RunDatasetFacets]:
    """Build the inputs or outputs; one reported first without and then with a version is one dataset."""
    rows, datasets = list(rows), []
    name = itemgetter("dataset_namespace", "dataset_name")
    versions = {name(row): row["dataset_version"] for row in rows if row["dataset_version"]}
    for row in rows:
        row["dataset_version"] = row["dataset_version"] or versions.get(name(row))
    for key, group in _grouped(rows, "dataset_namespace", "dataset_name", "dataset_version"):
        kinds = (
            merge_facet_rows(row for row in group if row["type"] == kind) for kind in ("DATASET", "INPUT", "OUTPUT")
        )
        dataset = RunDatasetFacets(*key, *kinds)
        if dataset.facets or dataset.input_facets or dataset.output_facets:
            datasets.append(dataset)
    return datasets


# Newest rows that are read for one facet.
MAX_HISTORY_ROWS: Final = 5_000

EntityKind = Literal["dataset", "job", "run"]
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


def read_facet_history(
    lake: Lake, kind: EntityKind, identity: tuple[str, ...], name: str, selection: EventSelection = NO_EVENTS
) -> list[FacetState]:
    """Read the states of a facet, newest first; consecutive events with an equal facet are one state.

    `selection` has the events that may contain it, to find those that are not backfilled yet.
    """
    table, keys, column = _TABLES[kind]
    raw = _raw_only_rows(lake, selection, f"{kind} {identity[-1]}").get(table.name, ())
    names = {name, *(alias for alias, canonical in FACET_ALIASES.items() if canonical == name)}
    value_range = ValueRange(column, identity[-1], identity[-1])
    condition = reduce(and_, (pc.field(key) == part for key, part in zip(keys, identity, strict=True)))
    condition = condition & pc.field("name").isin(list(names))
    positions = scan_range(lake, table, value_range).to_table(columns=["seq"], filter=condition)["seq"].to_pylist()
    # Positions select row groups: rows are sorted by run, and the runs of an entity are all over a file.
    condition = condition & pc.field("seq").isin(sorted(positions)[-MAX_HISTORY_ROWS:])
    rows = {row["uuid"]: row for row in read_facet_rows(lake, table, value_range, condition).to_pylist()}
    rows |= {row["uuid"]: row for row in raw if row["name"] in names and tuple(row[key] for key in keys) == identity}
    newest = _sorted_rows(rows.values(), lake.facet_order)[-MAX_HISTORY_ROWS:]
    return [_state(list(events)) for _, events in groupby(newest, key=itemgetter("facet"))][::-1]


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
