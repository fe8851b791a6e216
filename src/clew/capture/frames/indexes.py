"""Rules for what is computed from an index: its named levels are fields like any column."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray
from pandas.core.generic import NDFrame
from pandas.core.indexes.datetimelike import DatetimeTimedeltaMixin

from clew.capture.flags import FILTER, IDENTITY, TRANSFORMATION
from clew.capture.frames.calls import Call, changed, spread
from clew.capture.frames.hooks import hook_axis, hook_classmethod, hook_getter, hook_item, hook_method, replace
from clew.capture.frames.operators import OPERATORS
from clew.capture.frames.series import framed, mask_uses
from clew.capture.frames.state import (
    given_levels,
    index_names,
    index_state,
    is_mask,
    is_scalar,
    known,
    provenance_of,
    renames,
    series_parts,
    version_of,
)
from clew.capture.guard import guard
from clew.capture.provenance import Provenance, SeriesState, mark_series, through, union
from clew.capture.records import SameLabels
from clew.capture.statements import note_read
from clew.capture.versions import STATE, give_state

if TYPE_CHECKING:
    from collections.abc import Callable

_SAME_VALUES = (
    "to_series to_frame to_numpy unique rename set_names copy intersection union difference symmetric_difference "
    "append take repeat drop sort_values drop_duplicates dropna tolist to_list"
).split()
_COMPUTED = (
    "map isin duplicated isna notna astype fillna where strftime normalize floor ceil round to_period to_timestamp "
    "tz_localize tz_convert month_name day_name"
).split()
_PARTS_OF_TIME = (
    "year month day hour minute second date time quarter dayofweek day_of_week weekday dayofyear day_of_year"
).split()
_OWNERS = (
    pd.Index,
    pd.MultiIndex,
    pd.RangeIndex,
    DatetimeTimedeltaMixin,
    pd.DatetimeIndex,
    pd.PeriodIndex,
    pd.TimedeltaIndex,
    pd.CategoricalIndex,
)
_MADE = (pd.Index, pd.DatetimeIndex, pd.PeriodIndex, pd.CategoricalIndex)
_OPERANDS = (pd.Series, pd.Index, np.ndarray, ExtensionArray, list)


def level_values(call: Call) -> None:
    """index.get_level_values(level)."""
    state = index_state(call.subject)
    if state is not None and isinstance(call.result, pd.Index):
        found = (state.index or {}).get(call.result.name, state.provenance)
        _mark(call.result, found, state.rows)


def derived(step: int) -> Callable[[Call], None]:
    """What comes from all levels of an index, and from what it was computed with."""

    def rule(call: Call) -> None:
        state = index_state(call.subject) or SeriesState({})
        others = [value for value in call.values() if isinstance(value, _OPERANDS)]
        provenance = through(union(state.provenance, *map(known, others)), step)
        beside = [index_state(other) for other in others if isinstance(other, pd.Index)]
        rows = union(state.rows, *[other.rows for other in beside if other is not None]) or None
        if not provenance and not rows:
            return
        if isinstance(call.result, pd.Index):
            _mark(call.result, provenance, rows)
        elif isinstance(call.result, pd.DataFrame):
            framed(call, SeriesState(provenance, state.index, rows))
        elif isinstance(call.result, pd.Series):
            mark_series(call.result, provenance, state.index, rows)
        else:
            spread(call, provenance)
            note_read(call.frame, provenance)

    return rule


def selected(call: Call) -> None:
    """index[key]: what a mask chose knows the mask."""
    state, key, result = index_state(call.subject) or SeriesState({}), call.args[0], call.result
    if isinstance(result, pd.Index):
        rows = union(state.rows, mask_uses(key, call, FILTER) if is_mask(key) else None)
        if state.provenance or rows:
            mark_series(result, state.provenance, state.index, rows or None)
    elif is_scalar(result):
        spread(call, state.provenance)


def made_of_values(call: Call) -> None:
    """pd.MultiIndex.from_arrays, pd.MultiIndex.from_frame: a level from each of the arrays or columns."""
    given = call.argument(0, "arrays", call.kwargs.get("df"))
    if isinstance(given, pd.DataFrame):
        version = version_of(given)
        sources = [version.field(label) for label in given.columns]
    else:
        sources = [known(one) for one in given]
    levels = {name: found for name, found in zip(call.result.names, sources, strict=False) if name is not None}
    mark_series(call.result, union(*sources), levels or None)


def index_set(call: Call) -> None:
    """`df.index = labels`, `series.index = labels`."""
    axis, labels = call.args
    subject, frame = call.subject, call.frame
    if frame.f_code is NDFrame.__setattr__.__code__ and frame.f_back is not None:
        # Set as an attribute: pandas' own code stands between.
        call.frame = frame.f_back
    if isinstance(subject, pd.Series):
        state = series_parts(subject)
        mark_series(subject, state.provenance, given_levels(labels, index_names(subject.index)) or None, state.rows)
    elif axis == 1:
        names = [name for name in index_names(subject.index) if name not in subject.columns]
        levels = given_levels(labels, names)
        changed(call, "transformation", SameLabels(call.before, IDENTITY, levels), method="index")
        index = subject._mgr.axes[1]
        if getattr(index, STATE) is None:
            give_state(index, getattr(subject, STATE))


def _before(subject: Any) -> Any:
    return version_of(subject) if isinstance(subject, pd.DataFrame) else None


def _mark(result: Any, provenance: Provenance, rows: Provenance | None) -> None:
    levels = {result.name: provenance} if result.name is not None else None
    mark_series(result, provenance, levels, rows)


def hook_indexes() -> None:
    """Look on at what notebooks do with an index."""
    for owner in (pd.Index, pd.MultiIndex):
        hook_method(owner, "get_level_values", level_values)
        _hook_naming(owner)
    for owner in _OWNERS:
        for name in (*_SAME_VALUES, *_COMPUTED, *_PARTS_OF_TIME, *OPERATORS, "values"):
            _hook_derived(owner, name, IDENTITY if name in _SAME_VALUES or name == "values" else TRANSFORMATION)
        if "__getitem__" in vars(owner):
            hook_item(owner, selected)
    for owner in _MADE:
        _hook_making(owner)
    for name in ("from_arrays", "from_frame"):
        hook_classmethod(pd.MultiIndex, name, made_of_values)
    hook_axis(NDFrame, "_set_axis", index_set, _before)


def _hook_derived(owner: Any, name: str, step: int) -> None:
    if name not in vars(owner) and not (owner is pd.Index and hasattr(owner, name)):
        return
    attribute = inspect.getattr_static(owner, name)
    if inspect.isfunction(attribute):
        hook_method(owner, name, derived(step))
    elif isinstance(attribute, property):
        hook_getter(owner, name, derived(step))


def _hook_naming(owner: Any) -> None:
    """`df.index.name = name` changes the labels of frames behind their back: from then on they are compared."""
    for name in ("name", "names"):
        original = vars(owner).get(name)
        if original is not None:
            replace(owner, name, _noting(original))


def _noting(original: property) -> property:
    def setter(self: Any, value: Any) -> None:
        original.fset(self, value)  # type: ignore[misc]
        if not guard.depth:
            renames.seen = True

    return property(original.fget, setter, original.fdel, original.__doc__)


def _hook_making(owner: Any) -> None:
    """`pd.Index(series)`: the values know where they came from."""
    original = owner.__new__

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - stands in for the method
        result = original(cls, *args, **kwargs)
        return result if guard.depth else _made_of(result, args[0] if args else kwargs.get("data"))

    replace(owner, "__new__", staticmethod(_with_names(original) or __new__))


def _with_names(original: Any) -> Any:
    """The same for the arguments that an Index takes: pandas makes so many that to pack them up would be seen."""

    def __new__(  # noqa: N807 - stands in for the method
        cls: type, data: Any = None, dtype: Any = None, copy: Any = None, name: Any = None, tupleize_cols: Any = None
    ) -> Any:
        result = original(cls, data, dtype, copy, name, tupleize_cols)
        return result if guard.depth else _made_of(result, data)

    if inspect.signature(original).parameters.keys() != inspect.signature(__new__).parameters.keys():
        return None
    __new__.__defaults__ = original.__defaults__
    return __new__


def _made_of(index: Any, data: Any) -> Any:
    if getattr(index, STATE) is None:
        provenance = provenance_of(data)
        if provenance:
            _mark(index, provenance, None)
    return index
