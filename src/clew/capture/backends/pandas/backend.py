"""Capture of pandas: patches from the table of methods, and column metrics."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from clew.capture.backends.base import Backend
from clew.capture.backends.pandas.methods import install, uninstall
from clew.capture.backends.pandas.state import current_version, snapshot_frame
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion, set_state

# Metrics of few values are faster with Python's own set than with NumPy or pandas' hash table.
_SMALL_ARRAY = 100


class PandasBackend(Backend):
    """Capture of pandas, and of NumPy functions applied to columns."""

    name: ClassVar[str] = "pandas"

    def install(self) -> None:
        """Patch pandas and NumPy; 4 ms, once."""
        install()
        # Registers the accessor `df.lineage`. By name: the display layer, which it uses, depends on capture.
        importlib.import_module("clew.pandas")

    def uninstall(self) -> None:
        """Remove all patches."""
        uninstall()

    @property
    def frame_types(self) -> tuple[type, ...]:
        """DataFrames."""
        return (pd.DataFrame,)

    def snapshot(self, frame: Any) -> FrameVersion:
        """Create a version of a frame."""
        return snapshot_frame(frame)

    def attached_version(self, frame: Any) -> FrameVersion | None:
        """Return the version attached to a frame, if any."""
        version: FrameVersion | None = getattr(frame, STATE_ATTR, None)
        return version

    def attach_version(self, frame: Any, version: FrameVersion) -> None:
        """Attach a version to its frame."""
        set_state(frame, version)

    def current_version(self, frame: Any) -> FrameVersion:
        """Return the version of a frame; renames that no wrapper saw are recorded."""
        return current_version(frame)

    def column_metrics(self, frame: Any, position: int, step: int, *, include_bounds: bool) -> dict[str, Any]:
        """Return the metrics of a column."""
        # The array itself: creating a Series per column would cost more than counting.
        values = frame._mgr.iget_values(position)
        is_number = values.dtype.kind in "iuf"
        if is_number and isinstance(values, np.ndarray):
            return _numeric_metrics(values, step, include_bounds=include_bounds)
        text = getattr(values, "_pa_array", None)
        if text is not None and len(values) <= _SMALL_ARRAY and isinstance(values.dtype, pd.StringDtype):
            return {"nullCount": text.null_count, "distinctCount": len(set(text.to_pylist()) - {None})}
        nulls = pd.isna(values)
        metrics: dict[str, Any] = {"nullCount": int(np.count_nonzero(nulls))}
        # Lists and dicts are not hashable.
        with contextlib.suppress(TypeError, AttributeError):
            metrics["distinctCount"] = _count_distinct(values, nulls, metrics["nullCount"], step)
        if is_number and include_bounds:
            metrics |= {"min": values._reduce("min"), "max": values._reduce("max")}
        return metrics


BACKEND = PandasBackend()


def _numeric_metrics(values: Any, step: int, *, include_bounds: bool) -> dict[str, Any]:
    """Return the metrics of a numeric array without pandas, ten times faster."""
    is_float = values.dtype.kind == "f"
    if len(values) <= _SMALL_ARRAY:
        numbers = values.tolist()
        present = [number for number in numbers if number == number] if is_float else numbers  # noqa: PLR0124 - NaN alone differs from itself
        metrics = {"nullCount": len(numbers) - len(present), "distinctCount": len(set(present))}
        return metrics | {"min": min(present), "max": max(present)} if present and include_bounds else metrics
    nulls = np.isnan(values) if is_float else None
    count = int(np.count_nonzero(nulls)) if nulls is not None else 0
    metrics = {"nullCount": count, "distinctCount": _count_distinct(values, nulls, count, step)}
    if len(values) > count and include_bounds:
        metrics |= {"min": np.fmin.reduce(values), "max": np.fmax.reduce(values)}
    return metrics


def _count_distinct(values: Any, nulls: Any, count: int, step: int) -> int:
    if step > 1:
        values, nulls = values[::step], nulls[::step] if count else None
    present = values[~nulls] if count else values
    return len(set(present.tolist())) if len(present) <= _SMALL_ARRAY else len(pd.unique(present))
