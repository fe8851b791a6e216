"""Column metrics of the frames bound to variables at the end of a cell."""

from __future__ import annotations

import math
import numbers
import os
import time
from typing import TYPE_CHECKING, Any

from clew.capture.backends.base import BoundFrame, require_backend
from clew.capture.diagnostics import record_error
from clew.capture.environments.session import current_execution
from clew.capture.introspection.user_code import tracing_suppressed
from clew.capture.lineage.frame_version import FrameVersion, column_labels

if TYPE_CHECKING:
    from clew.capture.environments.session import Execution
    from clew.capture.lineage.operations import OperationRecord

# Distinct values are counted exactly up to this many rows, otherwise in a sample of about _SAMPLE_ROWS rows.
_MAX_EXACT_ROWS = 100_000
_SAMPLE_ROWS = 10_000
_MAX_COLUMNS = 200
_MAX_EXACT_FLOAT = 2**53
# Time budget of metrics: a share of the cell's duration, with a minimum.
_TIME_SHARE = 0.05
_MIN_SECONDS = 0.05


def collect_metrics(execution: Execution, frames: list[BoundFrame]) -> dict[FrameVersion, dict[str, Any]]:
    """Return metrics of the frames that this execution produced and that are still bound, and of its files."""
    made = {record.output for record in execution.records}
    metrics = _file_metrics(execution, made) if execution.metrics else {}
    if not made or not frames or not _are_metrics_enabled():
        return metrics
    deadline = time.perf_counter() + max(_MIN_SECONDS, execution.duration * _TIME_SHARE)
    with tracing_suppressed():
        for _, frame, version in frames:
            if version in made and (version not in metrics or "omitted" in metrics[version]):
                _measure(frame, version, deadline, metrics)
    return metrics


def _file_metrics(execution: Execution, made: set[FrameVersion | None]) -> dict[FrameVersion, dict[str, Any]]:
    # Only the first iteration of a loop is reported.
    written = {version for record in execution.records if record.kind == "io" for version in record.parents}
    return {version: metrics for version, metrics in execution.metrics.items() if version in made or version in written}


def measure_file(frame: Any, version: FrameVersion, entry: OperationRecord) -> None:
    """Collect metrics of a frame right after it was read or written: it may not be bound when the cell ends."""
    execution = current_execution()
    if execution is None or entry.is_pending or version in execution.metrics or not _are_metrics_enabled():
        return
    started = time.perf_counter()
    allowed = max(_MIN_SECONDS - execution.metrics_seconds, entry.duration * _TIME_SHARE)
    _measure(frame, version, started + allowed, execution.metrics)
    spent = time.perf_counter() - started
    execution.metrics_seconds += spent
    entry.overhead += spent


def _are_metrics_enabled() -> bool:
    return os.environ.get("CLEW_METRICS") != "off"


def _measure(frame: Any, version: FrameVersion, deadline: float, metrics: dict[FrameVersion, dict[str, Any]]) -> None:
    # Bounds of numbers only: the minimum of strings would be a user's value.
    include_bounds = os.environ.get("CLEW_METRICS") != "counts"
    try:
        metrics[version] = frame_metrics(frame, deadline, include_bounds=include_bounds)
    except Exception as error:  # noqa: BLE001 - metrics are optional
        record_error("metrics", error)


def frame_metrics(frame: Any, deadline: float, *, include_bounds: bool = True) -> dict[str, Any]:
    """Return row count and column metrics of a frame; `omitted` lists the columns skipped for lack of time."""
    backend = require_backend(frame)
    columns: dict[str, Any] = {}
    omitted: list[str] = []
    rows = len(frame)
    step = max(1, rows // _SAMPLE_ROWS) if rows > _MAX_EXACT_ROWS else 1
    for position, label in enumerate(column_labels(frame.columns)):
        if position >= _MAX_COLUMNS or time.perf_counter() > deadline:
            omitted.append(str(label))
        else:
            column = backend.column_metrics(frame, position, step, include_bounds=include_bounds)
            columns[str(label)] = _with_finite_bounds(column) if "min" in column else column
    metrics: dict[str, Any] = {"rowCount": rows, "columnMetrics": columns}
    if step > 1:
        metrics["sampled"] = True
    if omitted:
        metrics["omitted"] = omitted[:_MAX_COLUMNS]
    return metrics


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
