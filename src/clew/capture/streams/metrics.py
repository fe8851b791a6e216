"""Column metrics of the frames that variables hold when a cell ends."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from clew.capture.losses import count_loss
from clew.capture.versions import STATE, FrameVersion

if TYPE_CHECKING:
    from clew.capture.sessions import Execution

# Distinct values are counted exactly up to here; beyond, in a sample of this many rows.
_EXACT_ROWS = 100_000
_SAMPLED_ROWS = 10_000
_COLUMNS_MEASURED = 200
# Share of a cell's own time that its metrics may take, and what they may take in any case.
_SHARE = 0.05
_LEAST_SECONDS = 0.05


def measured(execution: Execution, namespace: dict[str, Any]) -> dict[FrameVersion, dict[str, Any]]:
    """Metrics of each frame that this execution made or changed and a variable still holds, within a budget."""
    made = {record.output for record in execution.records if record.output is not None}
    if not made or "pandas" not in sys.modules or os.environ.get("CLEW_METRICS") == "off":
        return {}
    from clew.capture.frames.guard import guard

    deadline = time.perf_counter() + max(_LEAST_SECONDS, execution.duration * _SHARE)
    found: dict[FrameVersion, dict[str, Any]] = {}
    guard.depth = 1
    try:
        for frame in _frames_in(namespace):
            version = frame.__dict__.get(STATE)
            if version in made and version not in found:
                found[version] = frame_metrics(frame, deadline)
                version.nbytes = int(frame.memory_usage(index=False).sum())
    except Exception as error:  # noqa: BLE001 - metrics are an extra: their failure costs only themselves
        count_loss("metrics", error)
    finally:
        guard.depth = 0
    return found


def _frames_in(namespace: dict[str, Any]) -> list[Any]:
    frame_type = sys.modules["pandas"].DataFrame
    return [value for value in list(namespace.values()) if isinstance(value, frame_type)]


def frame_metrics(frame: Any, deadline: float) -> dict[str, Any]:
    """Rows of a frame and metrics of its columns; `omitted` names those that the budget left out."""
    columns: dict[str, Any] = {}
    omitted: list[str] = []
    is_sampled = len(frame) > _EXACT_ROWS
    for place, label in enumerate(frame.columns):
        if place >= _COLUMNS_MEASURED or time.perf_counter() > deadline:
            omitted.append(str(label))
            continue
        columns[str(label)] = _column_metrics(frame.iloc[:, place], is_sampled=is_sampled)
    found: dict[str, Any] = {"rowCount": len(frame), "columnMetrics": columns}
    if is_sampled:
        found["sampled"] = True
    if omitted:
        found["omitted"] = omitted[:_COLUMNS_MEASURED]
    return found


def _column_metrics(column: Any, *, is_sampled: bool) -> dict[str, Any]:
    values = column.array
    if type(values).__name__ == "NumpyExtensionArray" and column.dtype.kind in "iuf":
        return _number_metrics(values.to_numpy(), is_sampled=is_sampled)
    found: dict[str, Any] = {"nullCount": int(column.isna().sum())}
    # Lists and dicts cannot be hashed.
    with contextlib.suppress(TypeError, AttributeError):
        found["distinctCount"] = int(_sampled(column.array, is_sampled=is_sampled).dropna().unique().size)
    if column.dtype.kind in "iuf" and _tells_bounds():
        found |= _bounds(column.min(), column.max())
    return found


def _number_metrics(values: Any, *, is_sampled: bool) -> dict[str, Any]:
    """The same straight from an array of numbers, in a tenth of the time."""
    from pandas import unique

    valid = values[values == values] if values.dtype.kind == "f" else values  # noqa: PLR0124 - NaN differs from itself
    found: dict[str, Any] = {
        "nullCount": len(values) - len(valid),
        "distinctCount": len(unique(_sampled(valid, is_sampled=is_sampled))),
    }
    if len(valid) and _tells_bounds():
        found |= _bounds(valid.min(), valid.max())
    return found


def _sampled(values: Any, *, is_sampled: bool) -> Any:
    return values[:: max(1, len(values) // _SAMPLED_ROWS)] if is_sampled else values


def _tells_bounds() -> bool:
    # Of numbers only: a string's minimum would be one of the user's values.
    return os.environ.get("CLEW_METRICS") != "counts"


def _bounds(least: Any, most: Any) -> dict[str, float]:
    numbers = {"min": _finite(least), "max": _finite(most)}
    return {name: number for name, number in numbers.items() if number is not None}


def _finite(bound: Any) -> float | None:
    try:
        number = float(bound)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
