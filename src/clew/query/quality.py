"""Data quality: results of tests, and drift of a dataset from run to run (row counts, schema, column metrics)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct

from clew.events.facets import METRICS_FACET, QualityAssertion, as_int64, decode_facet
from clew.index.backends.base import Row
from clew.index.queries.entities import Name
from clew.index.queries.reader import IndexReader
from clew.index.queries.records import QualityRecord
from clew.query.entities.model import AssertionResult, SchemaField
from clew.query.model import DatasetName, Field, from_epoch_micros, parse_fields

_MAX_RUNS = 200

_decode_assertions = msgspec.json.Decoder(list[QualityAssertion]).decode


class QualityCounts(Struct, frozen=True):
    """Number of data quality tests, and of those that failed and passed."""

    failed: int
    passed: int
    total: int

    @classmethod
    def of(cls, results: Collection[AssertionResult]) -> QualityCounts | None:
        """Count results; None if there are none."""
        outcomes = [result.success for result in results]
        return cls(outcomes.count(False), outcomes.count(True), len(outcomes)) if outcomes else None

    def __str__(self) -> str:
        """Return `2 of 5 failed` or `5 passed`."""
        if self.failed:
            return f"{self.failed} of {self.total} failed"
        return f"{self.passed} passed" if self.passed == self.total else f"{self.passed} of {self.total} passed"


def load_run_assertions(index: IndexReader, run_uuids: Collection[str]) -> dict[str, tuple[AssertionResult, ...]]:
    """Load the test results of runs, failed ones first; runs without tests are left out."""
    by_run: defaultdict[str, list[QualityRecord]] = defaultdict(list)
    for record in index.quality_of_runs(run_uuids) if run_uuids else ():
        by_run[record.asserted_by].append(record)
    results = {run_uuid: _results(records) for run_uuid, records in by_run.items()}
    return {run_uuid: own for run_uuid, own in results.items() if own}


def load_dataset_assertions(
    index: IndexReader, names: Collection[Name]
) -> tuple[tuple[AssertionResult, ...], list[tuple[AssertionResult, ...]]]:
    """Load the last test results of each job for a dataset with all its names, and the results of the last runs."""
    records: dict[str, list[QualityRecord]] = {}
    for record in index.quality_of_dataset(names, _MAX_RUNS):
        records.setdefault(record.asserted_by, []).insert(0, record)
    # A job replaces its earlier results as a whole. Without a job, each dataset replaces its own.
    latest: dict[tuple[str | None, ...], list[QualityRecord]] = {}
    for asserted_by, own in records.items():
        last = own[-1]
        latest.setdefault((last.job_namespace, last.job_name, None if last.job_name else asserted_by), own)
    return _results([record for own in latest.values() for record in own]), [_results(own) for own in records.values()]


def _results(records: Iterable[QualityRecord]) -> tuple[AssertionResult, ...]:
    """Merge results in the order of precedence, the deciding ones last."""
    results: dict[tuple[object, ...], AssertionResult] = {}
    for record in records:
        dataset = DatasetName(record.dataset_namespace, record.dataset_name)
        at = from_epoch_micros(record.event_time)
        for item in _decode_assertions(record.assertions):
            values = item._asdict()
            del values["occurrence"]
            result = AssertionResult(dataset=dataset, run_uuid=record.run_uuid, at=at, **values)
            results[record.asserted_by, dataset, *item.key] = result
    # False sorts before None and True.
    return tuple(sorted(results.values(), key=lambda result: result.success is not False))


class ColumnMetrics(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Metrics of a column, named as in the OpenLineage dataQualityMetrics facet; `quantiles` by probability."""

    null_count: int | None = None
    distinct_count: int | None = None
    count: float | None = None
    sum: float | None = None
    average: float | None = None
    min: float | str | None = None
    max: float | str | None = None
    quantiles: dict[str, float] = {}
    # Whether the distinct count is an estimate.
    sampled: bool = False


class QualityMetrics(Struct, frozen=True):
    """Content of a dataQualityMetrics facet."""

    row_count: int | None = None
    bytes: int | None = None
    file_count: int | None = None
    columns: dict[str, ColumnMetrics] = {}


def parse_quality_metrics(facet: bytes | None) -> QualityMetrics:
    """Parse a dataQualityMetrics facet, or the counts of a statistics facet; malformed values are left out."""
    value = {} if facet is None else decode_facet(facet)
    rows, size = _as_integer(value.get("rowCount")), _as_integer(value.get("bytes", value.get("size")))
    columns = value.get("columnMetrics")
    items = columns.items() if isinstance(columns, dict) else ()
    metrics = {name: _column_metrics(column, rows) for name, column in items if isinstance(column, dict)}
    return QualityMetrics(rows, size, _as_integer(value.get("fileCount")), metrics)


def _column_metrics(column: dict[str, Any], rows: int | None) -> ColumnMetrics:
    nulls, count, total = (_as_number(column.get(key)) for key in ("nullCount", "count", "sum"))
    average, quantiles = _as_number(column.get("average")), column.get("quantiles")
    if average is None and total is not None:
        values = count if count is not None else None if rows is None else rows - (nulls or 0)
        average = total / values if values else None
    low, high = (value if isinstance(value := column.get(key), str) else _as_number(value) for key in ("min", "max"))
    numbers = {key: _as_number(number) for key, number in quantiles.items()} if isinstance(quantiles, dict) else {}
    return ColumnMetrics(
        as_int64(nulls),
        _as_integer(column.get("distinctCount")),
        count,
        total,
        average,
        low,
        high,
        {key: number for key, number in sorted(numbers.items()) if number is not None},
        column.get("sampled") is True,
    )


def _as_number(value: object) -> float | None:
    """Return a number, or the number in a text; None for other values."""
    try:
        number = float(value) if isinstance(value, str) else value
        is_number = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
    except (ValueError, OverflowError):
        return None
    return number if is_number else None  # type: ignore[return-value]


def _as_integer(value: object) -> int | None:
    return as_int64(_as_number(value))


class DatasetObservation(Struct, frozen=True):
    """A dataset as one run read or wrote it."""

    at: datetime | None
    run_uuid: str
    job_name: str | None
    direction: str
    row_count: int | None
    fields: tuple[Field, ...]
    metrics: dict[str, ColumnMetrics]
    bytes: int | None = None
    tests: QualityCounts | None = None


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
    """Drift of a dataset; runs are sorted newest first. `assertions` are the last test results of each job."""

    dataset: DatasetName
    runs: tuple[DatasetObservation, ...]
    schema_changes: tuple[SchemaChange, ...]
    columns: tuple[ColumnDrift, ...]
    assertions: tuple[AssertionResult, ...] = ()


def compute_drift(index: IndexReader, dataset: DatasetName) -> DatasetDrift:
    """Compute the drift over the last runs that read or wrote a dataset."""
    rows = index.io_of_dataset((dataset.namespace, dataset.name), _MAX_RUNS)
    assertions, history = load_dataset_assertions(index, index.aliases_of((dataset.namespace, dataset.name)))
    tests = {results[0].run_uuid: QualityCounts.of(results) for results in history if results}
    newest_first = tuple(_observation(index, row, tests.get(row["run_uuid"])) for row in rows)
    oldest_first = newest_first[::-1]
    return DatasetDrift(
        dataset,
        newest_first,
        tuple(_schema_changes(oldest_first)),
        tuple(_column_drifts(oldest_first)),
        assertions,
    )


def _observation(index: IndexReader, row: Row, tests: QualityCounts | None) -> DatasetObservation:
    metrics = parse_quality_metrics(_find_metrics(index, row))
    return DatasetObservation(
        at=from_epoch_micros(row["first_event_at"]),
        run_uuid=row["run_uuid"],
        job_name=row["job_name"],
        direction=row["direction"],
        row_count=row["row_count"] if row["row_count"] is not None else metrics.row_count,
        fields=() if row["fields"] is None else parse_fields(f'{{"fields":{row["fields"]}}}'.encode()),
        metrics=metrics.columns,
        bytes=metrics.bytes,
        tests=tests,
    )


def _find_metrics(index: IndexReader, row: Row) -> bytes | None:
    """Return the metrics of a read or write: those of the run, or those of the dataset in an event of the run."""
    name = row["dataset_namespace"], row["dataset_name"]
    # The first events of a run may lack the version.
    for version in dict.fromkeys((row["dataset_version"] or None, None)):
        facet = index.run_dataset_facet(row["direction"], *name, version, row["run_uuid"], METRICS_FACET)
        if facet is not None:
            return facet
        for stored in index.stored_facets("dataset", *name, version):
            is_of_run = version is not None or row["first_seq"] <= stored.seq <= row["last_seq"]
            if stored.name == METRICS_FACET and is_of_run:
                return stored.body
    return None


class ColumnChange(Struct, frozen=True):
    """A column with different types."""

    name: str
    left: str | None
    right: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.left} → {self.right}"


class SchemaDiff(Struct, frozen=True):
    """Columns that were added, removed or changed their type."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    retyped: tuple[ColumnChange, ...]


def diff_columns(left: Iterable[SchemaField | Field], right: Iterable[SchemaField | Field]) -> SchemaDiff | None:
    """Compare columns by name; None if they are equal. An unknown type is not a change."""
    old, new = ({column.name: column.type for column in side} for side in (left, right))
    added, removed = (tuple(name for name in one if name not in other) for one, other in ((new, old), (old, new)))
    retyped = tuple(
        ColumnChange(name, old[name], new[name])
        for name in old
        if name in new and None not in (old[name], new[name]) and old[name] != new[name]
    )
    return SchemaDiff(added, removed, retyped) if added or removed or retyped else None


def _schema_changes(runs: tuple[DatasetObservation, ...]) -> Iterator[SchemaChange]:
    for before, after in pairwise(run for run in runs if run.fields):
        diff = diff_columns(before.fields, after.fields)
        if diff is not None:
            yield SchemaChange(after.at, after.run_uuid, diff.added, diff.removed, tuple(map(str, diff.retyped)))


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
