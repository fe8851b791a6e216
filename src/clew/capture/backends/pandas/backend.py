"""Capture of pandas: patches from the table of methods, and column metrics."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pandas._libs.lib import memory_usage_of_objects
from pandas.core.generic import NDFrame
from pandas.core.groupby import DataFrameGroupBy, SeriesGroupBy
from pandas.core.groupby.indexing import GroupByNthSelector
from pandas.core.resample import Resampler
from pandas.core.window.rolling import BaseWindow

from clew.capture.backends.base import Backend, Rule, Tracing, public_methods
from clew.capture.backends.pandas import aggregation, assignment, io, series
from clew.capture.backends.pandas.elementwise import trace_categorical_init, trace_ufunc, trace_unknown_method
from clew.capture.backends.pandas.groupby import GroupMethod, groupby_rule, nth_rule
from clew.capture.backends.pandas.index import patch_accessors, patch_indexes
from clew.capture.backends.pandas.indexing import patch_indexers
from clew.capture.backends.pandas.methods import IGNORED_METHODS, METHODS, NUMPY_FUNCTIONS, Method
from clew.capture.backends.pandas.patching import patches
from clew.capture.backends.pandas.selection import patch_frame_getitem, patch_iteration
from clew.capture.backends.pandas.state import (
    current_version,
    install_state_attr,
    lineage_or_empty,
    remove_state_attr,
    snapshot_frame,
)
from clew.capture.emit.column_metrics import SAMPLE_ROWS, ValueSample, distinct_metrics
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion, set_state
from clew.capture.tracking import when_imported

# Metrics of few values are faster with Python's own set than with NumPy or pandas' hash table.
_SMALL_ARRAY = 100
_UNKNOWN = Method()


class PandasBackend(Backend):
    """Capture of pandas, and of NumPy functions applied to columns."""

    name: ClassVar[str] = "pandas"

    def install(self) -> None:
        """Patch pandas and NumPy; 4 ms, once."""
        if patches.is_installed:
            return
        install_state_attr()
        _patch_frames()
        _patch_series()
        _patch_groups()
        _patch_functions()
        patch_indexers()
        patch_accessors()
        patch_indexes({name: method.index_step for name, method in METHODS.items() if method.index_step})
        patch_iteration()
        when_imported("pyarrow.pandas_compat", _patch_arrow)
        # Registers the accessor `df.lineage`. By name: the display layer, which it uses, depends on capture.
        importlib.import_module("clew.pandas")

    def uninstall(self) -> None:
        """Remove all patches."""
        patches.remove()
        remove_state_attr()

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

    def column_metrics(self, frame: Any, position: int, seconds: float, *, include_bounds: bool) -> dict[str, Any]:
        """Return the metrics of a column."""
        # The array itself: creating a Series per column would cost more than counting.
        values = frame._mgr.iget_values(position)
        is_number = values.dtype.kind in "iuf"
        if is_number and isinstance(values, np.ndarray):
            return _numeric_metrics(values, seconds, include_bounds=include_bounds)
        text = getattr(values, "_pa_array", None)
        if text is not None and len(values) <= _SMALL_ARRAY and isinstance(values.dtype, pd.StringDtype):
            return {"nullCount": text.null_count, "distinctCount": len(set(text.to_pylist()) - {None})}
        nulls = pd.isna(values)
        metrics: dict[str, Any] = {"nullCount": int(np.count_nonzero(nulls))}
        # Lists and dicts are not hashable.
        with contextlib.suppress(TypeError, AttributeError):
            metrics |= _count_distinct(values, nulls, metrics["nullCount"], seconds)
        if is_number and include_bounds:
            metrics |= {"min": values._reduce("min"), "max": values._reduce("max")}
        return metrics

    def memory_bytes(self, frame: Any) -> tuple[int, bool]:
        """Return what `memory_usage(deep=True)` reports, without a Series per column."""
        total, is_exact = frame.index.memory_usage(deep=True), True
        for block in frame._mgr.blocks:
            values = block.values  # noqa: PD011 - a block of the manager
            if hasattr(values, "memory_usage"):
                total += values.memory_usage(deep=True)
                continue
            total += values.nbytes
            if values.dtype == object:
                total += _object_bytes(values)
                is_exact = is_exact and values.size <= SAMPLE_ROWS
        return int(total), is_exact


BACKEND = PandasBackend()


def _patch_frames() -> None:
    owner = pd.DataFrame
    # Attributes that are patched first have their own wrappers.
    setitem = Tracing(assignment.trace_setitem, current_version, assignment.evaluate_setitem_key, "assignment")
    patches.setitem(owner, setitem)
    patch_frame_getitem()
    patches.method(owner, "__init__", Tracing(io.trace_frame_init, kind="creation"))
    with_rules = [name for name, method in METHODS.items() if method.frame is not None and hasattr(owner, name)]
    for name in dict.fromkeys((*public_methods(owner, IGNORED_METHODS), *with_rules)):
        method = METHODS.get(name, _UNKNOWN)
        patch = (
            patches.stack_level_method
            if method.has_stack_level
            else patches.in_place_method
            if method.in_place
            else patches.member
        )
        patch(owner, name, method.tracing(method.frame or trace_unknown_method, current_version))
    for name in ("from_dict", "from_records", "from_arrow"):
        if hasattr(owner, name):
            patches.class_method(owner, name, Tracing(io.trace_frame_from, kind="creation"))


def _patch_series() -> None:
    owner = pd.Series
    patches.setitem(owner, Tracing(series.trace_series_setitem, lineage_or_empty))
    getitem = METHODS["__getitem__"].tracing(series.trace_series_getitem, lineage_or_empty)
    patches.element_getitem(owner, getitem)
    patches.method(owner, "__init__", Tracing(io.trace_series_init, kind="creation"))
    with_rules = [name for name, method in METHODS.items() if method.series is not None and hasattr(owner, name)]
    for name in dict.fromkeys((*public_methods(owner, IGNORED_METHODS), *with_rules)):
        method = METHODS.get(name, _UNKNOWN)
        rule = method.series or series.SeriesMethod()
        if method.in_place:
            in_place_rule = series.series_in_place_rule(rule) if isinstance(rule, series.SeriesMethod) else rule
            patches.in_place_method(owner, name, method.tracing(in_place_rule, lineage_or_empty))
        elif isinstance(rule, series.SeriesMethod):
            series.patch_series_method(name, rule)
        else:
            patches.member(owner, name, method.tracing(rule, lineage_or_empty))


def _patch_groups() -> None:
    """Patch GroupBy, windows and resamplers."""
    windows = (BaseWindow, *_subclasses(BaseWindow))
    for owner in (DataFrameGroupBy, SeriesGroupBy, Resampler, *windows):
        for name in public_methods(owner, IGNORED_METHODS):
            if owner in windows and name not in vars(owner):
                # The wrapper is inherited.
                continue
            patches.method(owner, name, Tracing(_group_rule(name)))
    for owner in (DataFrameGroupBy, SeriesGroupBy, BaseWindow, Resampler):
        patches.method(owner, "__getitem__", Tracing(aggregation.trace_groupby_getitem))
    for name in ("__call__", "__getitem__"):
        patches.method(GroupByNthSelector, name, Tracing(nth_rule(_group_rule("nth"))))


def _group_rule(name: str) -> Rule:
    rule = METHODS.get(name, _UNKNOWN).group or GroupMethod()
    return groupby_rule(name, rule) if isinstance(rule, GroupMethod) else rule


def _subclasses(owner: type) -> list[type]:
    direct: list[type] = owner.__subclasses__()
    return [*direct, *[descendant for subclass in direct for descendant in _subclasses(subclass)]]


def _patch_functions() -> None:
    for name, method in METHODS.items():
        if method.function is not None:
            patches.function(pd, name, method.tracing(method.function))
    for name in dir(pd):
        if name.startswith("read_") and name != "read_clipboard":
            patches.function(pd, name, Tracing(io.trace_read, kind="io"))
    for owner in io.CHUNK_READERS:
        for name in ("__next__", "get_chunk", "read"):
            if hasattr(owner, name):
                patches.method(owner, name, Tracing(io.trace_read_chunk, kind="io"))
    patches.method(pd.Categorical, "__init__", Tracing(trace_categorical_init))
    # One wrapper for both classes: pandas compares their `__array_ufunc__` to order the operands.
    patches.method(NDFrame, "__array_ufunc__", Tracing(trace_ufunc))
    for name, rule in NUMPY_FUNCTIONS.items():
        patches.function(np, name, Tracing(rule))


def _patch_arrow() -> None:
    """Patch the functions behind `table.to_pandas()` and `Table.from_pandas(frame)`; classes of Arrow are immutable."""
    if patches.is_installed:
        module = sys.modules["pyarrow.pandas_compat"]
        patches.function(module, "table_to_dataframe", Tracing(io.trace_arrow_to_pandas))
        patches.function(module, "dataframe_to_arrays", Tracing(io.trace_arrow_from_pandas))


def _numeric_metrics(values: Any, seconds: float, *, include_bounds: bool) -> dict[str, Any]:
    """Return the metrics of a numeric array without pandas, ten times faster."""
    is_float = values.dtype.kind == "f"
    if len(values) <= _SMALL_ARRAY:
        numbers = values.tolist()
        present = [number for number in numbers if number == number] if is_float else numbers  # noqa: PLR0124 - NaN alone differs from itself
        metrics = {"nullCount": len(numbers) - len(present), "distinctCount": len(set(present))}
        return metrics | {"min": min(present), "max": max(present)} if present and include_bounds else metrics
    nulls = np.isnan(values) if is_float else None
    count = int(np.count_nonzero(nulls)) if nulls is not None else 0
    metrics = {"nullCount": count, **_count_distinct(values, nulls, count, seconds)}
    if len(values) > count and include_bounds:
        metrics |= {"min": np.fmin.reduce(values), "max": np.fmax.reduce(values)}
    return metrics


def _count_distinct(values: Any, nulls: Any, count: int, seconds: float) -> dict[str, Any]:
    def count_all() -> int:
        present = values[~nulls] if count else values
        return len(set(present.tolist())) if len(present) <= _SMALL_ARRAY else len(pd.unique(present))

    def draw() -> ValueSample:
        sample = values[_sample_positions(len(values))]
        # Nulls have the code -1.
        codes = pd.factorize(sample)[0]
        counts = np.bincount(codes[codes >= 0])
        return ValueSample(int(counts.sum()), len(counts), int(np.count_nonzero(counts == 1)))

    return distinct_metrics(len(values) - count, seconds, count_all, draw)


def _sample_positions(rows: int) -> Any:
    """Return about SAMPLE_ROWS positions: a random one per stratum, since values may be periodic."""
    step = rows / SAMPLE_ROWS
    # A generator of our own: the user's must not be disturbed.
    return ((np.arange(SAMPLE_ROWS) + np.random.default_rng(0).random(SAMPLE_ROWS)) * step).astype(np.int64)


def _object_bytes(values: Any) -> int:
    """Return the memory of the objects in an array; that of many is estimated from a sample."""
    items = values.ravel()
    if len(items) <= SAMPLE_ROWS:
        return int(memory_usage_of_objects(items))
    sample = items[_sample_positions(len(items))[:: SAMPLE_ROWS // 1_000]]
    return int(memory_usage_of_objects(sample) * len(items) / len(sample))
