"""Column metrics of the frames bound to variables at the end of a cell."""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.capture.backends.base import is_polars
from clew.capture.diagnostics import record_error
from clew.capture.environments.session import current_execution
from clew.capture.introspection.user_code import tracing_suppressed
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion, column_labels

if TYPE_CHECKING:
    from clew.capture.environments.session import Execution
    from clew.capture.lineage.operations import OperationRecord

# Distinct values are counted exactly up to this many rows, otherwise in a sample of about _SAMPLE_ROWS rows.
_MAX_EXACT_ROWS = 100_000
_SAMPLE_ROWS = 10_000
_MAX_COLUMNS = 200
_SMALL_ARRAY = 100
_MAX_EXACT_FLOAT = 2**53
# Time budget of metrics: a share of the cell's duration, with a minimum.
_TIME_SHARE = 0.05
_MIN_SECONDS = 0.05
# Names not chosen by the user: dunder names, and IPython's output history (_, _1, …).
_GENERATED_NAME = re.compile(r"__|_\d*$")


class BoundFrame(NamedTuple):
    """A variable that holds a frame."""

    name: str
    frame: Any
    version: FrameVersion


def bound_frames(namespace: dict[str, Any]) -> list[BoundFrame]:
    """Return the variables of a notebook that hold tracked frames."""
    modules = [sys.modules[name] for name in ("pandas", "polars") if name in sys.modules]
    kinds = tuple([module.DataFrame for module in modules])
    # Copy first: another thread may add variables during the iteration.
    frames = [(name, value) for name, value in list(namespace.items()) if isinstance(value, kinds)]
    return [
        BoundFrame(name, frame, version)
        for name, frame in frames
        if isinstance(version := getattr(frame, STATE_ATTR, None), FrameVersion) and not _is_generated_name(name)
    ]


def _is_generated_name(name: str) -> bool:
    return name.startswith("_") and _GENERATED_NAME.match(name) is not None


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
    is_polars_frame = is_polars(frame)
    columns: dict[str, Any] = {}
    omitted: list[str] = []
    rows = len(frame)
    step = max(1, rows // _SAMPLE_ROWS) if rows > _MAX_EXACT_ROWS else 1
    for position, label in enumerate(frame.columns if is_polars_frame else column_labels(frame.columns)):
        if position >= _MAX_COLUMNS or time.perf_counter() > deadline:
            omitted.append(str(label))
        elif is_polars_frame:
            columns[str(label)] = _series_metrics(frame.to_series(position), step, include_bounds=include_bounds)
        else:
            # The array itself: creating a Series per column would cost more than counting.
            columns[str(label)] = _column_metrics(frame._mgr.iget_values(position), step, include_bounds=include_bounds)
    metrics: dict[str, Any] = {"rowCount": rows, "columnMetrics": columns}
    if step > 1:
        metrics["sampled"] = True
    if omitted:
        metrics["omitted"] = omitted[:_MAX_COLUMNS]
    return metrics


def _series_metrics(series: Any, step: int, *, include_bounds: bool) -> dict[str, Any]:
    """Return the metrics of a polars Series."""
    nulls = series.null_count()
    metrics: dict[str, Any] = {"nullCount": nulls}
    # n_unique is not supported for some nested types.
    with contextlib.suppress(sys.modules["polars"].exceptions.PolarsError):
        sample = (series.gather_every(step) if step > 1 else series).drop_nulls()
        metrics["distinctCount"] = sample.n_unique()
    if series.dtype.is_numeric() and len(series) > nulls and include_bounds:
        metrics |= _bounds(series.min(), series.max())
    return metrics


def _column_metrics(values: Any, step: int, *, include_bounds: bool) -> dict[str, Any]:
    is_number = values.dtype.kind in "iuf"
    if is_number and type(values).__module__ == "numpy":
        if len(values) > _SMALL_ARRAY:
            return _numeric_metrics(values, step, include_bounds=include_bounds)
        return _small_array_metrics(values, include_bounds=include_bounds)
    text = getattr(values, "_pa_array", None)
    if text is not None and len(values) <= _SMALL_ARRAY and isinstance(values.dtype, sys.modules["pandas"].StringDtype):
        distinct = set(text.to_pylist()) - {None}
        return {"nullCount": text.null_count, "distinctCount": len(distinct)}
    nulls = sys.modules["pandas"].isna(values)
    count = int(sys.modules["numpy"].count_nonzero(nulls))
    metrics: dict[str, Any] = {"nullCount": count}
    # Lists and dicts are not hashable.
    with contextlib.suppress(TypeError, AttributeError):
        metrics["distinctCount"] = _count_distinct(values, nulls, count, step)
    if is_number and include_bounds:
        metrics |= _bounds(values._reduce("min"), values._reduce("max"))
    return metrics


def _small_array_metrics(values: Any, *, include_bounds: bool) -> dict[str, Any]:
    """Return the metrics of a small numeric array in pure Python, which is faster than numpy calls."""
    finite_numbers = values.tolist()
    if values.dtype.kind == "f":
        finite_numbers = [number for number in finite_numbers if number == number]  # noqa: PLR0124 - NaN alone differs from itself
    metrics: dict[str, Any] = {
        "nullCount": len(values) - len(finite_numbers),
        "distinctCount": len(set(finite_numbers)),
    }
    if finite_numbers and include_bounds:
        minimum, maximum = min(finite_numbers), max(finite_numbers)
        if minimum > -_MAX_EXACT_FLOAT and maximum < _MAX_EXACT_FLOAT:
            metrics["min"], metrics["max"] = float(minimum), float(maximum)
        else:
            metrics |= _bounds(minimum, maximum)
    return metrics


def _numeric_metrics(values: Any, step: int, *, include_bounds: bool) -> dict[str, Any]:
    """Return the metrics of a numeric array with numpy, ten times faster than through pandas."""
    numpy = sys.modules["numpy"]
    nulls = numpy.isnan(values) if values.dtype.kind == "f" else None
    count = int(numpy.count_nonzero(nulls)) if nulls is not None else 0
    metrics: dict[str, Any] = {"nullCount": count, "distinctCount": _count_distinct(values, nulls, count, step)}
    if len(values) > count and include_bounds:
        metrics |= _bounds(numpy.fmin.reduce(values), numpy.fmax.reduce(values))
    return metrics


def _count_distinct(values: Any, nulls: Any, count: int, step: int) -> int:
    if step > 1:
        values, nulls = values[::step], nulls[::step] if count else None
    present = values[~nulls] if count else values
    # For few values a set is faster than pandas' hash table.
    return len(set(present.tolist())) if len(present) <= _SMALL_ARRAY else len(sys.modules["pandas"].unique(present))


def _bounds(minimum: Any, maximum: Any) -> dict[str, float]:
    bounds: dict[str, float] = {}
    for name, bound in (("min", minimum), ("max", maximum)):
        number = _to_finite(bound)
        if number is not None:
            bounds[name] = number
    return bounds


def _to_finite(bound: Any) -> float | None:
    try:
        number = float(bound)
    except (TypeError, ValueError):
        return None
    # An integer too large for an exact float stays an integer.
    if abs(number) >= _MAX_EXACT_FLOAT and isinstance(bound, (int, numbers.Integral)):
        return int(bound)
    return number if math.isfinite(number) else None
