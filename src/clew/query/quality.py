"""Drift of a dataset from run to run: row counts, schema and column metrics."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

import msgspec
from msgspec import Struct

from clew.index.backends.base import Row
from clew.index.queries.reader import IndexReader
from clew.query.model import DatasetName, Field, from_epoch_micros

_MAX_RUNS = 200


class ColumnMetrics(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Metrics of a column, named as in the OpenLineage dataQualityMetrics facet."""

    null_count: int | None = None
    distinct_count: int | None = None
    min: float | str | None = None
    max: float | str | None = None


class DatasetObservation(Struct, frozen=True):
    """A dataset as one run read or wrote it."""

    at: datetime | None
    run_uuid: str
    job_name: str | None
    direction: str
    row_count: int | None
    fields: tuple[Field, ...]
    metrics: dict[str, ColumnMetrics]


class SchemaChange(Struct, frozen=True):
    """Columns added, removed or retyped between two consecutive runs that reported a schema."""

    at: datetime | None
    run_uuid: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    retyped: tuple[str, ...]


class ColumnDrift(Struct, frozen=True):
    """First and last metrics of a column; `is_current` means it is in the latest schema."""

    column: str
    type: str | None
    is_current: bool
    first_null_share: float | None
    last_null_share: float | None
    first: ColumnMetrics | None
    last: ColumnMetrics | None


class DatasetDrift(Struct, frozen=True):
    """Drift of a dataset; runs are sorted newest first."""

    dataset: DatasetName
    runs: tuple[DatasetObservation, ...]
    schema_changes: tuple[SchemaChange, ...]
    columns: tuple[ColumnDrift, ...]


class _Metrics(Struct, rename="camel"):
    row_count: int | None = None
    column_metrics: dict[str, ColumnMetrics] = {}


_decode_metrics = msgspec.json.Decoder(_Metrics, strict=False).decode
_decode_fields = msgspec.json.Decoder(list[Field]).decode


def compute_drift(index: IndexReader, dataset: DatasetName) -> DatasetDrift:
    """Compute the drift over the last runs that read or wrote a dataset."""
    rows = index.io_of_dataset((dataset.namespace, dataset.name), _MAX_RUNS)
    newest_first = tuple(_observation(index, row) for row in rows)
    oldest_first = newest_first[::-1]
    return DatasetDrift(
        dataset, newest_first, tuple(_schema_changes(oldest_first)), tuple(_column_drifts(oldest_first))
    )


def _observation(index: IndexReader, row: Row) -> DatasetObservation:
    metrics = _load_metrics(index, row)
    return DatasetObservation(
        at=from_epoch_micros(row["first_event_at"]),
        run_uuid=row["run_uuid"],
        job_name=row["job_name"],
        direction=row["direction"],
        row_count=row["row_count"] if row["row_count"] is not None else metrics.row_count,
        fields=_parse_fields(row["fields"]),
        metrics=metrics.column_metrics,
    )


def _load_metrics(index: IndexReader, row: Row) -> _Metrics:
    key = row["dataset_namespace"], row["dataset_name"], row["dataset_version"] or None
    facet = index.run_dataset_facet(row["direction"], *key, row["run_uuid"], "dataQualityMetrics")
    if facet is None and row["direction"] == "OUTPUT":
        facet = index.dataset_facet(*key, "dataQualityMetrics")
    try:
        return _Metrics() if facet is None else _decode_metrics(facet)
    except msgspec.DecodeError:
        return _Metrics()


def _parse_fields(text: str | None) -> tuple[Field, ...]:
    try:
        return () if text is None else tuple(_decode_fields(text))
    except msgspec.DecodeError:
        return ()


def _schema_changes(runs: tuple[DatasetObservation, ...]) -> Iterator[SchemaChange]:
    for before, after in pairwise(run for run in runs if run.fields):
        old = {field.name: field.type for field in before.fields}
        new = {field.name: field.type for field in after.fields}
        change = SchemaChange(
            after.at,
            after.run_uuid,
            added=tuple(name for name in new if name not in old),
            removed=tuple(name for name in old if name not in new),
            retyped=tuple(
                f"{name}: {old[name]} → {new[name]}" for name in new if old.get(name, new[name]) != new[name]
            ),
        )
        if change.added or change.removed or change.retyped:
            yield change


def _column_drifts(runs: tuple[DatasetObservation, ...]) -> Iterator[ColumnDrift]:
    described_runs = [run for run in runs if run.fields]
    current_types = {field.name: field.type for field in described_runs[-1].fields} if described_runs else {}
    types = {field.name: field.type for run in described_runs for field in run.fields} | current_types
    for name in dict.fromkeys([*current_types, *types, *(name for run in runs for name in run.metrics)]):
        measured_runs = [run for run in runs if name in run.metrics]
        first, last = (measured_runs[0], measured_runs[-1]) if measured_runs else (None, None)
        yield ColumnDrift(
            column=name,
            type=types.get(name),
            is_current=name in current_types or not described_runs,
            first_null_share=_null_share(first, name),
            last_null_share=_null_share(last, name),
            first=None if first is None else first.metrics[name],
            last=None if last is None else last.metrics[name],
        )


def _null_share(run: DatasetObservation | None, column: str) -> float | None:
    nulls = None if run is None else run.metrics[column].null_count
    return None if run is None or nulls is None or not run.row_count else round(nulls / run.row_count, 4)
