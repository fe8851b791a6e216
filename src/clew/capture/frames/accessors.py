"""Rules for the accessors .str, .dt, .cat, .list and .struct: what they give comes from the Series behind them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
from pandas.core.arrays.categorical import CategoricalAccessor
from pandas.core.indexes.accessors import (
    CombinedDatetimelikeProperties,
    DatetimeProperties,
    PeriodProperties,
    TimedeltaProperties,
)
from pandas.core.strings.accessor import StringMethods

from clew.capture.flags import TRANSFORMATION
from clew.capture.frames.calls import Call
from clew.capture.frames.hooks import hook_getter, hook_method
from clew.capture.frames.series import framed
from clew.capture.frames.state import index_state, provenance_of, series_parts
from clew.capture.provenance import SeriesState, mark_series, remember_scalar, through, union
from clew.capture.versions import STATE

try:
    from pandas.core.arrays.arrow.accessors import ListAccessor, StructAccessor

    _ARROW: tuple[Any, ...] = (ListAccessor, StructAccessor)
except ImportError:  # before pandas 2.2
    _ARROW = ()

_OPERANDS = (pd.Series, pd.Index, pd.DataFrame, np.ndarray, list)
_OWNERS = (
    StringMethods,
    DatetimeProperties,
    TimedeltaProperties,
    PeriodProperties,
    CombinedDatetimelikeProperties,
    CategoricalAccessor,
    *_ARROW,
)


def derived(call: Call) -> None:
    """Anything an accessor returns: a transformation of its Series and of the arguments that have provenance."""
    state = _behind(call.subject)
    others = [provenance_of(value) for value in call.values() if isinstance(value, _OPERANDS)]
    provenance = through(union(state.provenance, *others), TRANSFORMATION)
    if not provenance:
        return
    if isinstance(call.result, pd.Series):
        mark_series(call.result, provenance, state.index, state.rows)
    elif isinstance(call.result, pd.DataFrame):
        framed(call, SeriesState(provenance, state.index, state.rows), "transformation")
    elif isinstance(call.result, pd.Index) and hasattr(call.result, "__dict__"):
        mark_series(call.result, provenance)
    elif isinstance(call.result, str):
        remember_scalar(call.result, provenance)


def remembered(call: Call) -> None:
    """An accessor of categories keeps the array alone: it is told of the Series that it was made for."""
    call.subject.__dict__[STATE] = series_parts(call.argument(0, "data"))


def _behind(accessor: Any) -> SeriesState:
    state = accessor.__dict__.get(STATE)
    if isinstance(state, SeriesState):
        return state
    for name in ("_orig", "_parent", "_data"):
        series = accessor.__dict__.get(name)
        if isinstance(series, pd.Series):
            return series_parts(series)
        if isinstance(series, pd.Index):
            return index_state(series) or SeriesState({})
    return SeriesState({})


def hook_accessors() -> None:
    """Look on at every method and property of the accessors."""
    hook_method(CategoricalAccessor, "__init__", remembered)
    for owner in _OWNERS:
        for name in dir(owner):
            if name.startswith("_") and name != "__getitem__":
                continue
            attribute = inspect.getattr_static(owner, name)
            if inspect.isfunction(attribute):
                hook_method(owner, name, derived)
            elif isinstance(attribute, property) and attribute.fget is not None:
                hook_getter(owner, name, derived)
