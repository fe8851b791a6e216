"""Rules of Index objects and of the `str`, `dt` and `cat` accessors."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray
from pandas.core.arrays.categorical import CategoricalAccessor
from pandas.core.generic import NDFrame
from pandas.core.indexes.accessors import (
    CombinedDatetimelikeProperties,
    DatetimeProperties,
    PeriodProperties,
    TimedeltaProperties,
)
from pandas.core.indexes.datetimelike import DatetimeTimedeltaMixin
from pandas.core.strings.accessor import StringMethods

from clew.capture.backends.base import Call, Rule, Tracing
from clew.capture.backends.pandas.call import assign_to_result, record_mutated
from clew.capture.backends.pandas.patching import patches
from clew.capture.backends.pandas.series import mask_provenance, record_to_frame
from clew.capture.backends.pandas.state import (
    current_version,
    index_lineage,
    index_renames,
    is_mask,
    is_scalar,
    level_provenance,
    lineage_or_empty,
    provenance_of,
    provenance_or_empty,
    renamed_fields,
)
from clew.capture.introspection.read_tracking import record_read
from clew.capture.introspection.user_code import guard, strip_frame
from clew.capture.lineage.frame_version import STATE_ATTR, index_names, set_state
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges
from clew.capture.lineage.provenance import (
    Provenance,
    SeriesLineage,
    apply_direct,
    attach_to_scalar,
    attach_to_series,
    union,
)
from clew.capture.lineage.transformations import FILTER, IDENTITY, TRANSFORMATION

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    if isinstance(call.result, pd.Series):
        attach_to_series(call.result, provenance, lineage.index, lineage.rows)
    elif not provenance:
        return
    elif isinstance(call.result, pd.DataFrame):
        record_to_frame(call, SeriesLineage(provenance, lineage.index, lineage.rows), call.kind)
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
    patches.method(CategoricalAccessor, "__init__", Tracing(trace_categorical_accessor))
    for owner in _ACCESSOR_CLASSES:
        for name in dir(owner):
            if name.startswith("_") and name != "__getitem__":
                continue
            patches.member(owner, name, Tracing(trace_accessor))


_INDEX_CLASSES = (
    pd.Index,
    pd.MultiIndex,
    pd.RangeIndex,
    DatetimeTimedeltaMixin,
    pd.DatetimeIndex,
    pd.PeriodIndex,
    pd.TimedeltaIndex,
    pd.CategoricalIndex,
)
_CONSTRUCTED_CLASSES = (pd.Index, pd.DatetimeIndex, pd.PeriodIndex, pd.CategoricalIndex)
_INDEX_OPERANDS = (pd.Series, pd.Index, np.ndarray, ExtensionArray, list)


def trace_get_level_values(call: Call) -> None:
    """Trace index.get_level_values(level)."""
    lineage = index_lineage(call.receiver)
    if lineage is not None and isinstance(call.result, pd.Index):
        provenance = (lineage.index or {}).get(call.result.name, lineage.provenance)
        _attach_named(call.result, provenance, lineage.rows)


def index_rule(step: int) -> Rule:
    """Build a rule for members whose result comes from all levels of the index and from the operands."""

    def rule(call: Call) -> None:
        lineage = index_lineage(call.receiver) or SeriesLineage({})
        operands = [value for value in call.values() if isinstance(value, _INDEX_OPERANDS)]
        provenance = apply_direct(union(lineage.provenance, *map(provenance_or_empty, operands)), step)
        other_lineages = [index_lineage(operand) for operand in operands if isinstance(operand, pd.Index)]
        rows = union(lineage.rows, *[operand.rows for operand in other_lineages if operand is not None]) or None
        if isinstance(call.result, pd.Series):
            attach_to_series(call.result, provenance, lineage.index, rows)
        elif not provenance and not rows:
            return
        elif isinstance(call.result, pd.Index):
            _attach_named(call.result, provenance, rows)
        elif isinstance(call.result, pd.DataFrame):
            record_to_frame(call, SeriesLineage(provenance, lineage.index, rows))
        else:
            assign_to_result(call, provenance)
            record_read(call.caller, provenance)

    return rule


def trace_index_getitem(call: Call) -> None:
    """Trace index[key]; a mask becomes row provenance."""
    lineage, key, result = index_lineage(call.receiver) or SeriesLineage({}), call.args[0], call.result
    if isinstance(result, pd.Index):
        rows = union(lineage.rows, mask_provenance(key, call, FILTER) if is_mask(key) else None)
        if lineage.provenance or rows:
            attach_to_series(result, lineage.provenance, lineage.index, rows or None)
    elif is_scalar(result):
        assign_to_result(call, lineage.provenance)


def trace_multiindex_from(call: Call) -> None:
    """Trace pd.MultiIndex.from_arrays, pd.MultiIndex.from_frame: one level per array or column."""
    data = call.argument(0, "arrays", call.kwargs.get("df"))
    if isinstance(data, pd.DataFrame):
        version = current_version(data)
        sources = [version.field(label) for label in data.columns]
    else:
        sources = [provenance_or_empty(array) for array in data]
    levels = {
        name: provenance for name, provenance in zip(call.result.names, sources, strict=False) if name is not None
    }
    attach_to_series(call.result, union(*sources), levels or None)


def trace_set_axis(call: Call) -> None:
    """Trace `df.index = labels`, `series.index = labels`, `df.columns = labels`."""
    axis, labels = call.args
    receiver, caller = call.receiver, call.caller
    if caller.f_code is NDFrame.__setattr__.__code__ and caller.f_back is not None:
        # Attribute assignment goes through a stack frame of pandas.
        call.caller = caller.f_back
    if isinstance(receiver, pd.Series):
        lineage = lineage_or_empty(receiver)
        attach_to_series(
            receiver, lineage.provenance, level_provenance(labels, index_names(receiver.index)) or None, lineage.rows
        )
    elif axis == 1:
        names = [name for name in index_names(receiver.index) if name not in receiver.columns]
        levels = level_provenance(labels, names)
        record_mutated(call, IdentityEdges(call.pre_state, IDENTITY, levels), method="index")
        index = receiver._mgr.axes[1]
        if getattr(index, STATE_ATTR) is None:
            set_state(index, getattr(receiver, STATE_ATTR))
    elif receiver.columns.equals(call.pre_state.columns):
        call.pre_state.columns = receiver._mgr.axes[0]
    else:
        record_mutated(call, ExplicitEdges(renamed_fields(call.pre_state, receiver)), method="columns")


def _version_if_frame(receiver: Any) -> Any:
    return current_version(receiver) if isinstance(receiver, pd.DataFrame) else None


def _attach_named(result: Any, provenance: Provenance, rows: Provenance | None) -> None:
    levels = {result.name: provenance} if result.name is not None else None
    attach_to_series(result, provenance, levels, rows)


def patch_indexes(steps: Mapping[str, int]) -> None:
    """Patch the Index classes; `steps` are the transformations of their methods and properties."""
    for owner in (pd.Index, pd.MultiIndex):
        patches.method(owner, "get_level_values", Tracing(trace_get_level_values))
        _patch_index_names(owner)
    for owner in _INDEX_CLASSES:
        for name, step in steps.items():
            if name in vars(owner) or (owner is pd.Index and hasattr(owner, name)):
                patches.member(owner, name, Tracing(index_rule(step)))
        if "__getitem__" in vars(owner):
            patches.getitem(owner, Tracing(trace_index_getitem))
    for owner in _CONSTRUCTED_CLASSES:
        _patch_index_constructor(owner)
    for name in ("from_arrays", "from_frame"):
        patches.class_method(pd.MultiIndex, name, Tracing(trace_multiindex_from))
    patches.set_axis(NDFrame, "_set_axis", Tracing(trace_set_axis, _version_if_frame))


def _patch_index_names(owner: Any) -> None:
    """Patch `index.name = ...`, which renames levels of frames unnoticed: level names are compared from then on."""
    for name in ("name", "names"):
        original = vars(owner).get(name)
        if original is not None:
            patches.replace(owner, name, _flag_renames(original))


def _flag_renames(original: property) -> property:
    def setter(self: Any, value: Any) -> None:
        try:
            original.fset(self, value)  # type: ignore[misc]
            if not guard.depth:
                index_renames.record(self, sys._getframe(1))
        except BaseException as error:
            strip_frame(error)
            raise

    return property(original.fget, setter, original.fdel, original.__doc__)


def _patch_index_constructor(owner: Any) -> None:
    """Patch `pd.Index(data)` to attach the provenance of the data."""
    original = owner.__new__

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - replaces the method
        try:
            result = original(cls, *args, **kwargs)
            return result if guard.depth else _attach_from_data(result, args[0] if args else kwargs.get("data"))
        except BaseException as error:
            strip_frame(error)
            raise

    patches.replace(owner, "__new__", staticmethod(_fast_constructor(original) or __new__))


def _fast_constructor(original: Any) -> Any:
    """Return a wrapper with the signature of `pd.Index`: pandas calls it so often that packing arguments costs."""

    def __new__(  # noqa: N807 - replaces the method
        cls: type, data: Any = None, dtype: Any = None, copy: Any = None, name: Any = None, tupleize_cols: Any = None
    ) -> Any:
        try:
            result = original(cls, data, dtype, copy, name, tupleize_cols)
            return result if guard.depth else _attach_from_data(result, data)
        except BaseException as error:
            strip_frame(error)
            raise

    if inspect.signature(original).parameters.keys() != inspect.signature(__new__).parameters.keys():
        return None
    __new__.__defaults__ = original.__defaults__
    return __new__


def _attach_from_data(index: Any, data: Any) -> Any:
    if getattr(index, STATE_ATTR) is None:
        provenance = provenance_of(data)
        if provenance:
            _attach_named(index, provenance, None)
    return index
