"""The facets of a run, from the facet tables; from its raw events where a backfill has not filled them yet."""

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
from clew.events.timestamps import microseconds
from clew.lake.delta import Lake
from clew.lake.facet_rows import facet_rows, made_whole
from clew.lake.lineage_rows import LineageRows
from clew.lake.raw_only import filled, is_unfilled_anywhere, opened, raw_events, unfilled
from clew.lake.scan import Span
from clew.lake.tables import DATASET_FACETS, FACET_TABLES, JOB_FACETS, LARGE_FACETS, RUN_FACETS

MOST_RAW_EVENTS: Final = 1_000
MOST_RAW_BYTES: Final = 256 << 20

Merged = dict[str, Raw]
Row = dict[str, Any]


class JobFacets(Struct, frozen=True):
    """What a run's events say of its job."""

    namespace: str
    name: str
    facets: Merged


class DatasetFacets(Struct, frozen=True):
    """What a run's events say of a dataset that they read or write."""

    namespace: str
    name: str
    version: str | None
    facets: Merged = field(default_factory=dict)
    input_facets: Merged = field(default_factory=dict)
    output_facets: Merged = field(default_factory=dict)


class RunFacets(Struct, frozen=True):
    """The facets that count after all events of a run."""

    run_uuid: str
    facets: Merged
    jobs: list[JobFacets]
    inputs: list[DatasetFacets]
    outputs: list[DatasetFacets]


class TooManyRawEventsError(ClewError):
    """A run's raw events are more than a look at it may cost."""

    @classmethod
    def of(cls, run_uuid: str, what: str) -> TooManyRawEventsError:
        """Say how many there are."""
        message = f"The facets of run {run_uuid} are not filled in yet, and it has {what}: too much to open each time."
        return cls(message, hint="Run `clew pipeline backfill`: it fills them in, the newest first.")


def facets_of_run(lake: Lake, run_uuid: str, order: FacetOrder = FacetOrder.RECEIVED) -> RunFacets:
    """All facets that a run's events give to it, to its job and to its datasets, merged first to last."""
    # Raw events first: what is committed between the two looks is then seen twice, and never missed.
    raw = _rows_of_raw_events(lake, run_uuid)
    span = Span("run_uuid", run_uuid, run_uuid)
    run, job, dataset = (
        _in_order(chain(facet_rows(lake, table, span).to_pylist(), raw.get(table.name, ())), order)
        for table in (RUN_FACETS, JOB_FACETS, DATASET_FACETS)
    )
    by_job = _grouped(job, "job_namespace", "job_name")
    jobs = [JobFacets(namespace, name, merged(rows)) for (namespace, name), rows in by_job]
    return RunFacets(
        run_uuid=run_uuid,
        facets=merged(run),
        jobs=[one for one in jobs if one.facets],
        inputs=_datasets(row for row in dataset if row["direction"] == "INPUT"),
        outputs=_datasets(row for row in dataset if row["direction"] == "OUTPUT"),
    )


def merged(rows: Iterable[Row]) -> Merged:
    """The facets that count, of rows in order. Spec: the later of a name replaces the earlier whole."""
    facets: Merged = {}
    for row in rows:
        name: str = row["name"]
        name, body = FACET_ALIASES.get(name, name), row["facet"].encode()
        facets.pop(name, None)
        if not is_deleted(body):
            facets[name] = Raw(body)
    return facets


def _rows_of_raw_events(lake: Lake, run_uuid: str) -> dict[str, list[Row]]:
    """The rows that a backfill has yet to add for a run, by table; nothing is looked for once all are filled."""
    done = filled(lake)
    if not is_unfilled_anywhere(lake, done):
        return {}
    span = Span("run_uuid", run_uuid, run_uuid)
    positions = unfilled(lake, done, span)
    if len(positions) > MOST_RAW_EVENTS:
        raise TooManyRawEventsError.of(run_uuid, f"{len(positions):,} events")
    size, rows = 0, LineageRows()
    for event, arrival in opened(raw_events(lake, span, positions)):
        size += len(arrival.body)
        if size > MOST_RAW_BYTES:
            raise TooManyRawEventsError.of(run_uuid, f"more than {MOST_RAW_BYTES >> 20} MB of events")
        rows.add(event, arrival)
    return _whole_rows(rows.batches())


def _whole_rows(batches: Mapping[str, pa.RecordBatch]) -> dict[str, list[Row]]:
    tables = {name: pa.Table.from_batches([batch]) for name, batch in batches.items()}
    large = tables.get(LARGE_FACETS.name)
    facets = {table.name: tables[table.name] for table in FACET_TABLES if table.name in tables}
    return {name: (rows if large is None else made_whole(rows, large)).to_pylist() for name, rows in facets.items()}


def _in_order(rows: Iterable[Row], order: FacetOrder) -> list[Row]:
    def place(row: Row) -> tuple[tuple[int, int], str]:
        # Facets of one event stand in the order of their UUIDs.
        return order.place(row["seq"], microseconds(row["lineage_event_time"])), row["uuid"]

    return sorted(rows, key=place)


def _grouped(rows: Iterable[Row], *keys: str) -> Iterable[tuple[tuple[Any, ...], list[Row]]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return sorted(groups.items(), key=lambda group: tuple(part or "" for part in group[0]))


def _datasets(rows: Iterable[Row]) -> list[DatasetFacets]:
    found = []
    for key, own in _grouped(rows, "dataset_namespace", "dataset_name", "dataset_version"):
        kinds = (merged(row for row in own if row["type"] == kind) for kind in ("DATASET", "INPUT", "OUTPUT"))
        dataset = DatasetFacets(*key, *kinds)
        if dataset.facets or dataset.input_facets or dataset.output_facets:
            found.append(dataset)
    return found
