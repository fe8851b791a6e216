"""Facets of a run, from the facet tables and from raw-only events that are not backfilled yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from msgspec import Raw, Struct, field

from clew.errors import ClewError
from clew.events.deletion import is_deleted
from clew.events.facet_order import FacetOrder
from clew.events.openlineage import FACET_ALIASES
from clew.events.timestamps import to_epoch_micros
from clew.lake.delta import Lake
from clew.lake.facet_rows import read_facet_rows, with_large_facets
from clew.lake.lineage_rows import LineageTableBuilder
from clew.lake.raw_only import (
    decode_raw_events,
    find_pending_positions,
    has_pending_backfill,
    read_backfilled_ranges,
    read_raw_events,
)
from clew.lake.scan import ValueRange
from clew.lake.tables import DATASET_FACETS, FACET_TABLES, JOB_FACETS, LARGE_FACETS, RUN_FACETS

MAX_RAW_EVENTS: Final = 1_000
MAX_RAW_BYTES: Final = 256 << 20

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
    """A run has too many raw-only events to parse on demand."""

    @classmethod
    def of(cls, run_uuid: str, what: str) -> TooManyRawEventsError:
        """Build the error for a run."""
        message = (
            f"The facets of run {run_uuid} are not backfilled yet, and it has {what}: too many to parse on demand."
        )
        return cls(message, hint="Run `clew pipeline backfill`: it fills in missing facets, newest first.")


def load_run_facets(lake: Lake, run_uuid: str, order: FacetOrder = FacetOrder.RECEIVED) -> RunFacets:
    """Load the facets of a run, its job and its datasets; the last of each name wins."""
    # Raw events first: a chunk committed between the two reads is then seen twice, never missed.
    raw = _raw_only_rows(lake, run_uuid)
    value_range = ValueRange("run_uuid", run_uuid, run_uuid)
    run, job, dataset = (
        _sorted_rows(chain(read_facet_rows(lake, table, value_range).to_pylist(), raw.get(table.name, ())), order)
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


def _raw_only_rows(lake: Lake, run_uuid: str) -> dict[str, list[Row]]:
    """Build the rows that a backfill still has to write for a run, by table."""
    backfilled = read_backfilled_ranges(lake)
    if not has_pending_backfill(lake, backfilled):
        return {}
    value_range = ValueRange("run_uuid", run_uuid, run_uuid)
    positions = find_pending_positions(lake, backfilled, value_range)
    if len(positions) > MAX_RAW_EVENTS:
        raise TooManyRawEventsError.of(run_uuid, f"{len(positions):,} events")
    size, rows = 0, LineageTableBuilder()
    for event, received in decode_raw_events(read_raw_events(lake, value_range, positions)):
        size += len(received.body)
        if size > MAX_RAW_BYTES:
            raise TooManyRawEventsError.of(run_uuid, f"more than {MAX_RAW_BYTES >> 20} MB of events")
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
    def sort_key(row: Row) -> tuple[tuple[int, int], str]:
        # UUIDs order the facets of one event.
        return order.sort_key(row["seq"], to_epoch_micros(row["lineage_event_time"])), row["uuid"]

    return sorted(rows, key=sort_key)


def _grouped(rows: Iterable[Row], *keys: str) -> Iterable[tuple[tuple[Any, ...], list[Row]]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return sorted(groups.items(), key=lambda group: tuple(part or "" for part in group[0]))


def _datasets(rows: Iterable[Row]) -> list[RunDatasetFacets]:
    datasets = []
    for key, group in _grouped(rows, "dataset_namespace", "dataset_name", "dataset_version"):
        kinds = (
            merge_facet_rows(row for row in group if row["type"] == kind) for kind in ("DATASET", "INPUT", "OUTPUT")
        )
        dataset = RunDatasetFacets(*key, *kinds)
        if dataset.facets or dataset.input_facets or dataset.output_facets:
            datasets.append(dataset)
    return datasets
