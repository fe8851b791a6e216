"""Rules for what is computed from an index: its named levels are fields like any column."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pandas as pd

from clew.capture.flags import IDENTITY, TRANSFORMATION
from clew.capture.frames.calls import Call, spread
from clew.capture.frames.hooks import hook_getter, hook_method
from clew.capture.frames.series import framed
from clew.capture.frames.state import index_state
from clew.capture.provenance import Provenance, SeriesState, mark_series, through

if TYPE_CHECKING:
    from collections.abc import Callable

_SAME_VALUES = ("to_series", "to_frame", "unique")
_COMPUTED = ("map", "isin", "strftime", "normalize", "floor", "ceil", "round", "to_period", "month_name", "day_name")
_PARTS_OF_TIME = (
    "year month day hour minute second date time quarter dayofweek day_of_week weekday dayofyear day_of_year"
).split()


def level_values(call: Call) -> None:
    """index.get_level_values(level)."""
    state = index_state(call.subject)
    if state is not None and isinstance(call.result, pd.Index):
        found = (state.index or {}).get(call.result.name, state.provenance)
        _mark(call.result, found, state)


def derived(step: int) -> Callable[[Call], None]:
    """What comes from all levels of an index."""

    def rule(call: Call) -> None:
        state = index_state(call.subject)
        if state is None:
            return
        provenance = through(state.provenance, step)
        if isinstance(call.result, pd.Index):
            _mark(call.result, provenance, state)
        elif isinstance(call.result, pd.DataFrame):
            framed(call, SeriesState(provenance, state.index, state.rows))
        elif isinstance(call.result, pd.Series):
            mark_series(call.result, provenance, state.index, state.rows)
        else:
            spread(call, provenance)

    return rule


def _mark(result: Any, provenance: Provenance, state: SeriesState) -> None:
    levels = {result.name: provenance} if result.name is not None else None
    mark_series(result, provenance, levels, state.rows)


def hook_indexes() -> None:
    """Look on at what notebooks do with an index."""
    for owner in (pd.Index, pd.MultiIndex):
        hook_method(owner, "get_level_values", level_values)
    for owner in (pd.Index, pd.DatetimeIndex, pd.PeriodIndex):
        for name in (*_SAME_VALUES, *_COMPUTED, *_PARTS_OF_TIME):
            attribute = inspect.getattr_static(owner, name, None)
            is_own = name in vars(owner)
            step = IDENTITY if name in _SAME_VALUES else TRANSFORMATION
            if is_own and inspect.isfunction(attribute):
                hook_method(owner, name, derived(step))
            elif is_own and isinstance(attribute, property):
                hook_getter(owner, name, derived(step))
