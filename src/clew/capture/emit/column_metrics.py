"""Column metrics of the frames bound to variables at the end of a cell."""

from __future__ import annotations

import math
import numbers
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.capture.backends.base import BoundFrame, require_backend
from clew.capture.diagnostics import record_error
from clew.capture.emit.files import MEMORY
from clew.capture.environments.session import current_execution
from clew.capture.introspection.user_code import tracing_suppressed
from clew.capture.lineage.frame_version import FrameVersion, column_labels

if TYPE_CHECKING:
    from clew.capture.environments.session import Execution
    from clew.capture.lineage.operations import OperationRecord

# Up to this many rows, distinct values are always counted; above, this is the size of a sample.
SAMPLE_ROWS = 10_000
_MAX_COLUMNS = 200
_MAX_EXACT_FLOAT = 2**53
# Estimated cost of adding a new value to a hash table, that of text as the most expensive; a known one costs a tenth.
_NANOSECONDS_PER_VALUE = 250
_COST_OF_KNOWN_VALUE = 0.1
# Budget of metrics in CPU time: a share of the cell's duration, with a minimum.
_TIME_SHARE = 0.02
_MIN_SECONDS = 0.02
_clock = time.thread_time


def collect_metrics(execution: Execution, frames: list[BoundFrame]) -> dict[FrameVersion, dict[str, Any]]:
    """Return metrics of bound frames that this execution produced or read, and of its files; each version once."""
    used = {record.output for record in execution.records}
    used.update(parent for record in execution.records for parent in record.parents)
    metrics = _file_metrics(execution, used) if execution.metrics else {}
    if not used or not frames or not _are_metrics_enabled():
        return metrics
    deadline = _clock() + max(_MIN_SECONDS, execution.duration * _TIME_SHARE)
    with tracing_suppressed():
        for _, frame, version in frames:
            if version in used and (not version.is_measured or "omitted" in metrics.get(version, ())):
                _measure(frame, version, deadline - _clock(), metrics)
    return metrics


def _file_metrics(execution: Execution, used: set[FrameVersion | None]) -> dict[FrameVersion, dict[str, Any]]:
    # Only the first iteration of a loop is reported.
    return {version: metrics for version, metrics in execution.metrics.items() if version in used}


def measure_file(frame: Any, version: FrameVersion, entry: OperationRecord) -> None:
    """Collect metrics of a frame right after it was read or written: it may not be bound when the cell ends."""
    execution = current_execution()
    if execution is None or entry.is_pending or version.is_measured or not _are_metrics_enabled():
        return
    started = _clock()
    allowed = max(_MIN_SECONDS - execution.metrics_seconds, entry.duration * _TIME_SHARE)
    _measure(frame, version, allowed, execution.metrics)
    spent = _clock() - started
    execution.metrics_seconds += spent
    entry.overhead += spent


def _are_metrics_enabled() -> bool:
    return os.environ.get("CLEW_METRICS") != "off"


def _measure(frame: Any, version: FrameVersion, seconds: float, metrics: dict[FrameVersion, dict[str, Any]]) -> None:
    # Bounds of numbers only: the minimum of strings would be a user's value.
    include_bounds = os.environ.get("CLEW_METRICS") != "counts"
    version.is_measured = True
    try:
        metrics[version] = frame_metrics(frame, seconds, include_bounds=include_bounds)
        version.nbytes, is_exact = require_backend(frame).memory_bytes(frame)
        metrics[version][MEMORY] = (version.nbytes, is_exact)
    except Exception as error:  # noqa: BLE001 - metrics are optional
        record_error("metrics", error)


def frame_metrics(frame: Any, seconds: float, *, include_bounds: bool = True) -> dict[str, Any]:
    """Return row count and column metrics of a frame; `omitted` lists the columns skipped for lack of time."""
    backend = require_backend(frame)
    columns: dict[str, Any] = {}
    omitted: list[str] = []
    labels = column_labels(frame.columns)
    deadline = _clock() + seconds
    for position, label in enumerate(labels):
        # A cheap column leaves its share to those after it.
        share = (deadline - _clock()) / (len(labels) - position)
        if position >= _MAX_COLUMNS or share < 0:
            omitted.append(str(label))
        else:
            column = backend.column_metrics(frame, position, share, include_bounds=include_bounds)
            columns[str(label)] = _with_finite_bounds(column) if "min" in column else column
    metrics: dict[str, Any] = {"rowCount": len(frame), "columnMetrics": columns}
    if any("sampled" in column for column in columns.values()):
        metrics["sampled"] = True
    if omitted:
        metrics["omitted"] = omitted[:_MAX_COLUMNS]
    return metrics


class ValueSample(NamedTuple):
    """A random sample without replacement: its size, its distinct values, and those that occur once."""

    size: int
    distinct: int
    singles: int


def distinct_metrics(
    rows: int, seconds: float, count: Callable[[], int], draw: Callable[[], ValueSample]
) -> dict[str, Any]:
    """Return the distinct count of `rows` values: exact if the time allows it, else estimated and marked `sampled`."""
    if rows <= SAMPLE_ROWS:
        return {"distinctCount": count()}
    size, distinct, singles = draw()
    new_share = _COST_OF_KNOWN_VALUE + (1 - _COST_OF_KNOWN_VALUE) * distinct / max(1, size)
    if rows * new_share * _NANOSECONDS_PER_VALUE <= seconds * 1e9:
        return {"distinctCount": count()}
    # The estimator Duj1 of Haas and Stokes, as in PostgreSQL's ANALYZE.
    estimate = size * distinct / (size - singles + singles * size / rows) if size else 0
    return {"distinctCount": round(estimate), "sampled": True}


def _with_finite_bounds(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics with bounds as JSON numbers, without bounds that are none."""
    for name in ("min", "max"):
        number = _to_finite(metrics.pop(name))
        if number is not None:
            metrics[name] = number
    return metrics


def _to_finite(bound: Any) -> float | None:
    try:
        number = float(bound)
    except (TypeError, ValueError):
        return None
    # An integer too large for an exact float stays an integer.
    if abs(number) >= _MAX_EXACT_FLOAT and isinstance(bound, (int, numbers.Integral)):
        return int(bound)
    return number if math.isfinite(number) else None
