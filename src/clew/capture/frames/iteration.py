"""Frames and values handed out one by one: groups of a GroupBy, items of a frame, elements of a Series."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pandas.core.groupby import DataFrameGroupBy, SeriesGroupBy

from clew.capture.flags import AGGREGATION
from clew.capture.frames.calls import Call
from clew.capture.frames.group_results import group_frame
from clew.capture.frames.grouping import groups_of
from clew.capture.frames.hooks import replace
from clew.capture.frames.state import provenance_of, version_of
from clew.capture.guard import guard
from clew.capture.losses import count_loss
from clew.capture.provenance import mark_series, union
from clew.capture.statements import note_read, note_scalar


def hook_iteration() -> None:
    """Look on at loops over groups, items and elements."""
    for owner in (DataFrameGroupBy, SeriesGroupBy):
        _hook_groups(owner)
    _hook_items()
    _hook_elements()


def _hook_groups(owner: Any) -> None:
    original = owner.__iter__

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807 - stands in for the method
        parts = original(self)
        return parts if guard.depth else _observed_groups(self, parts, sys._getframe(1))

    replace(owner, "__iter__", __iter__)


def _observed_groups(groups: Any, parts: Iterator[Any], frame: Any) -> Iterator[Any]:
    while True:
        depth, guard.depth = guard.depth, 1
        try:
            name, part = next(parts)
            call = Call("__iter__", groups, (), {}, None, frame)
            _safely(group_frame, call, part)
            _safely(_note_keys, groups, frame)
        except StopIteration:
            return
        finally:
            guard.depth = depth
        yield name, part


def _note_keys(groups: Any, frame: Any) -> None:
    found = groups_of(groups)
    if found is not None:
        note_read(frame, union(*[key for _, key in found.keys]))


def _safely(rule: Any, *arguments: Any) -> None:
    try:
        rule(*arguments)
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        count_loss("__iter__", error)


def _hook_items() -> None:
    items_of, rows_of, tuples_of = pd.DataFrame.items, pd.DataFrame.iterrows, pd.DataFrame.itertuples

    def items(self: Any) -> Iterator[Any]:
        pairs = items_of(self)
        return pairs if guard.depth else _observed_items(self, pairs)

    def iterrows(self: Any) -> Iterator[Any]:
        pairs = rows_of(self)
        return pairs if guard.depth else _observed_rows(self, pairs)

    def itertuples(self: Any, index: bool = True, name: str | None = "Pandas") -> Iterator[Any]:  # noqa: FBT001, FBT002 - as pandas has it
        if not guard.depth:
            # Plain tuples know nothing of their frame: they may hold any column.
            note_read(sys._getframe(1), version_of(self))
        tuples: Iterator[Any] = tuples_of(self, index, name)
        return tuples

    for replacement in (items, iterrows, itertuples):
        replace(pd.DataFrame, replacement.__name__, replacement)


def _observed_items(frame: Any, pairs: Iterator[Any]) -> Iterator[Any]:
    version = version_of(frame)
    for label, column in pairs:
        mark_series(column, version.field(label))
        yield label, column


def _observed_rows(frame: Any, pairs: Iterator[Any]) -> Iterator[Any]:
    everything = version_of(frame).fields()
    for label, row in pairs:
        mark_series(row, everything)
        yield label, row


def _hook_elements() -> None:
    original = pd.Series.__iter__

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807 - stands in for the method
        if not guard.depth:
            provenance = provenance_of(self)
            if provenance:
                note_read(sys._getframe(1), provenance)
                if any(flags & AGGREGATION for flags in provenance.values()):
                    # `low, high = column.quantile([0.1, 0.9])`: each is a single value.
                    note_scalar(sys._getframe(1), provenance)
        elements: Iterator[Any] = original(self)
        return elements

    replace(pd.Series, "__iter__", __iter__)
