"""Rules for the accessors .str, .dt, .cat, .list and .struct: results come from the underlying Series."""

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
from clew.capture.frames.hooks import patch_method, patch_property
from clew.capture.frames.series import record_to_frame
from clew.capture.frames.state import index_lineage, lineage_or_empty, provenance_of
from clew.capture.provenance import SeriesLineage, apply_direct, attach_to_scalar, attach_to_series, union
from clew.capture.versions import STATE_ATTR

try:
    from pandas.core.arrays.arrow.accessors import ListAccessor, StructAccessor

    _ARROW_ACCESSORS: tuple[Any, ...] = (ListAccessor, StructAccessor)
except ImportError:  # before pandas 2.2
    _ARROW_ACCESSORS = ()

_ACCESSOR_OPERANDS = (pd.Series, pd.Index, pd.DataFrame, np.ndarray, list)
_ACCESSOR_CLASSES = (
    StringMethods,
    DatetimeProperties,
    TimedeltaProperties,
    PeriodProperties,
    CombinedDatetimelikeProperties,
    CategoricalAccessor,
    *_ARROW_ACCESSORS,
)


def trace_accessor(call: Call) -> None:
    """Trace any accessor member: a transformation of the Series and of the arguments that have provenance."""
    lineage = _underlying_lineage(call.receiver)
    operands = [provenance_of(value) for value in call.values() if isinstance(value, _ACCESSOR_OPERANDS)]
    provenance = apply_direct(union(lineage.provenance, *operands), TRANSFORMATION)
    if not provenance:
        return
    if isinstance(call.result, pd.Series):
        attach_to_series(call.result, provenance, lineage.index, lineage.rows)
    elif isinstance(call.result, pd.DataFrame):
        record_to_frame(call, SeriesLineage(provenance, lineage.index, lineage.rows), "transformation")
    elif isinstance(call.result, pd.Index) and hasattr(call.result, "__dict__"):
        attach_to_series(call.result, provenance)
    elif isinstance(call.result, str):
        attach_to_scalar(call.result, provenance)


def trace_categorical_accessor(call: Call) -> None:
    """Trace the constructor of `.cat`, which holds only the array: attach the lineage of the Series to it."""
    call.receiver.__dict__[STATE_ATTR] = lineage_or_empty(call.argument(0, "data"))


def _underlying_lineage(accessor: Any) -> SeriesLineage:
    state = accessor.__dict__.get(STATE_ATTR)
    if isinstance(state, SeriesLineage):
        return state
    for name in ("_orig", "_parent", "_data"):
        series = accessor.__dict__.get(name)
        if isinstance(series, pd.Series):
            return lineage_or_empty(series)
        if isinstance(series, pd.Index):
            return index_lineage(series) or SeriesLineage({})
    return SeriesLineage({})


def patch_accessors() -> None:
    """Patch every method and property of the accessors."""
    patch_method(CategoricalAccessor, "__init__", trace_categorical_accessor)
    for owner in _ACCESSOR_CLASSES:
        for name in dir(owner):
            if name.startswith("_") and name != "__getitem__":
                continue
            attribute = inspect.getattr_static(owner, name)
            if inspect.isfunction(attribute):
                patch_method(owner, name, trace_accessor)
            elif isinstance(attribute, property) and attribute.fget is not None:
                patch_property(owner, name, trace_accessor)
