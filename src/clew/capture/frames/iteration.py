"""Iteration over groups of a GroupBy, items and rows of a frame, and elements of a Series."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pandas.core.groupby import DataFrameGroupBy, SeriesGroupBy

from clew.capture.flags import AGGREGATION
from clew.capture.frames.calls import Call
from clew.capture.frames.group_results import record_group
from clew.capture.frames.grouping import groupby_lineage
from clew.capture.frames.hooks import patch_attribute
from clew.capture.frames.state import current_version, provenance_of
from clew.capture.guard import guard
from clew.capture.losses import record_error
from clew.capture.provenance import attach_to_series, union
from clew.capture.statements import record_read, record_scalar


def patch_iteration() -> None:
    """Patch iteration over groups, frames and Series."""
    for owner in (DataFrameGroupBy, SeriesGroupBy):
        _patch_group_iteration(owner)
    _patch_frame_iteration()
    _patch_series_iteration()


def _patch_group_iteration(owner: Any) -> None:
    original = owner.__iter__

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807 - replaces the method
        groups = original(self)
        return groups if guard.depth else _trace_groups(self, groups, sys._getframe(1))

    patch_attribute(owner, "__iter__", __iter__)


def _trace_groups(grouped: Any, iterator: Iterator[Any], caller: Any) -> Iterator[Any]:
    while True:
        depth, guard.depth = guard.depth, 1
        try:
            name, group = next(iterator)
            call = Call("__iter__", grouped, (), {}, None, caller)
            _run_rule(record_group, call, group)
            _run_rule(_record_keys, grouped, caller)
        except StopIteration:
            return
        finally:
            guard.depth = depth
        yield name, group


def _record_keys(grouped: Any, caller: Any) -> None:
    lineage = groupby_lineage(grouped)
    if lineage is not None:
        record_read(caller, union(*[key for _, key in lineage.keys]))


def _run_rule(rule: Any, *args: Any) -> None:
    try:
        rule(*args)
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        record_error("__iter__", error)


def _patch_frame_iteration() -> None:
    original_items, original_iterrows, original_itertuples = (
        pd.DataFrame.items,
        pd.DataFrame.iterrows,
        pd.DataFrame.itertuples,
    )

    def items(self: Any) -> Iterator[Any]:
        pairs = original_items(self)
        return pairs if guard.depth else _trace_items(self, pairs)

    def iterrows(self: Any) -> Iterator[Any]:
        pairs = original_iterrows(self)
        return pairs if guard.depth else _trace_rows(self, pairs)

    def itertuples(self: Any, index: bool = True, name: str | None = "Pandas") -> Iterator[Any]:  # noqa: FBT001, FBT002 - pandas' signature
        if not guard.depth:
            # Plain tuples have no provenance: assume that all columns are read.
            record_read(sys._getframe(1), current_version(self))
        tuples: Iterator[Any] = original_itertuples(self, index, name)
        return tuples

    for replacement in (items, iterrows, itertuples):
        patch_attribute(pd.DataFrame, replacement.__name__, replacement)


def _trace_items(frame: Any, pairs: Iterator[Any]) -> Iterator[Any]:
    version = current_version(frame)
    for label, column in pairs:
        attach_to_series(column, version.field(label))
        yield label, column


def _trace_rows(frame: Any, pairs: Iterator[Any]) -> Iterator[Any]:
    all_columns = current_version(frame).fields()
    for label, row in pairs:
        attach_to_series(row, all_columns)
        yield label, row


def _patch_series_iteration() -> None:
    original = pd.Series.__iter__

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807 - replaces the method
        if not guard.depth:
            provenance = provenance_of(self)
            if provenance:
                record_read(sys._getframe(1), provenance)
                if any(flags & AGGREGATION for flags in provenance.values()):
                    # `low, high = column.quantile([0.1, 0.9])` extracts scalars.
                    record_scalar(sys._getframe(1), provenance)
        elements: Iterator[Any] = original(self)
        return elements

    patch_attribute(pd.Series, "__iter__", __iter__)
