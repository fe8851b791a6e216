"""Rules for Series: each operation composes provenance and emits nothing."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from clew.capture.flags import (
    AGGREGATION,
    CONDITIONAL,
    DIRECT,
    FILTER,
    GROUP_BY,
    IDENTITY,
    INDIRECT,
    JOIN,
    OPAQUE,
    SORT,
    TRANSFORMATION,
)
from clew.capture.frames.calls import (
    Call,
    brought,
    computed_scalar,
    is_literal,
    known_here,
    made,
    statement_provenance,
    took,
)
from clew.capture.frames.functions import is_opaque, used_outside
from clew.capture.frames.hooks import replace
from clew.capture.frames.operators import ARITHMETIC_METHODS, OPERATORS
from clew.capture.frames.state import (
    index_names,
    index_state,
    inferred,
    is_mask,
    is_scalar,
    known,
    levels_by_place,
    provenance_of,
    series_parts,
    used_as,
)
from clew.capture.guard import guard
from clew.capture.losses import count_loss
from clew.capture.provenance import (
    Provenance,
    SeriesState,
    mark_index,
    mark_series,
    remember_array,
    scalar_provenance,
    through,
    union,
    used_for,
)
from clew.capture.records import Kind, Listed
from clew.capture.statements import note_read, reads_of_target
from clew.capture.versions import STATE, give_state

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from clew.capture.versions import FrameVersion

_OPERANDS = (pd.Series, np.ndarray, pd.Index, pd.DataFrame, list, tuple, ExtensionArray)
_NUMBERS = (int, float)
# What is in them left pandas on its way, if it ever was there.
_CONTAINERS = (list, tuple, set, frozenset, dict)
_LEFT = (*_CONTAINERS, np.ndarray)

SAME_VALUES = frozenset(
    "copy head tail sample take truncate sort_index reindex reindex_like drop squeeze rename rename_axis set_axis "
    "set_flags infer_objects xs get repeat add_prefix add_suffix between_time at_time asfreq droplevel swaplevel "
    "reorder_levels __copy__ __deepcopy__ first last pop".split()
)
CUMULATIVE = frozenset(["cumsum", "cumprod", "cummax", "cummin"])
REDUCTIONS = frozenset(
    "sum mean median min max std var sem prod product count nunique any all skew kurt kurtosis quantile mode agg "
    "aggregate describe argmax argmin idxmax idxmin autocorr corr cov dot __matmul__ __rmatmul__ item".split()
)
ORDERED_BY_VALUE = {
    "sort_values": SORT,
    "nlargest": SORT,
    "nsmallest": SORT,
    "dropna": FILTER,
    "drop_duplicates": FILTER,
}


def step_of(name: str) -> int:
    """What a method of Series does to values."""
    if name in SAME_VALUES or name in ORDERED_BY_VALUE:
        return IDENTITY
    return AGGREGATION if name in CUMULATIVE or name in REDUCTIONS else TRANSFORMATION


class Method(NamedTuple):
    """What a method of Series does: to values, to the choice of rows, and what becomes of its index."""

    name: str
    step: int
    selects: int
    drops_index: bool
    # Whether its arguments say which rows are wanted, or bring values that are aligned with its own.
    is_told_rows: bool
    aligns: bool

    @classmethod
    def named(cls, name: str) -> Method:
        """The traits of a method, known by its name."""
        aligns = name in ARITHMETIC_METHODS or name in OPERATORS
        return cls(name, step_of(name), ORDERED_BY_VALUE.get(name, 0), name in REDUCTIONS, name in SAME_VALUES, aligns)


def hook_series(name: str) -> None:
    """Compose provenance through a method of Series."""
    original = getattr(pd.Series, name)
    method = Method.named(name)

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            return original(self, *args, **kwargs)
        guard.depth = 1
        try:
            result = original(self, *args, **kwargs)
            try:
                _compose(method, self, args, kwargs, result, sys._getframe(1))
            except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
                count_loss(f"Series.{name}", error)
        finally:
            guard.depth = 0
        return result

    functools.update_wrapper(wrapper, original)
    replace(pd.Series, name, wrapper)


def _compose(
    method: Method, series: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, frame: Any
) -> None:
    state = getattr(series, STATE, None)
    provenance = state.provenance if state is not None else None
    rows = state.rows if state is not None else None
    beside = None
    for value in (*args, *kwargs.values()) if kwargs else args:
        operand = _operand(value, frame)
        if operand is not None:
            if method.is_told_rows:
                rows = union(rows, used_for(operand.provenance, FILTER))
            else:
                provenance = union(provenance, operand.provenance)
            rows = union(rows, operand.rows) if operand.rows else rows
            if method.aligns and operand.index and isinstance(result, pd.Series):
                beside = operand.index
        elif isinstance(value, _LEFT):
            provenance = union(provenance, given(value, Call(method.name, series, args, kwargs, state, frame)))
    if not provenance and not rows:
        return
    if method.selects:
        rows = union(rows, used_for(provenance, method.selects))
    index = state.index if state is not None and not method.drops_index else None
    if beside is not None and is_aligned(series, result):
        # Rows of both were brought together by their labels.
        rows = union(rows, *[used_for(found, JOIN) for levels in (index or {}, beside) for found in levels.values()])
        index = {name: union((index or {}).get(name), beside.get(name)) for name in index_names(result.index)}
    _give(method.name, series, kwargs, result, SeriesState(through(provenance, method.step), index, rows), frame)


def is_aligned(subject: Any, result: Any) -> bool:
    """Whether the rows of a result are not those of its subject: another index was aligned with its own."""
    before, after = subject.index, result.index
    return before is not after and not before.equals(after)


def _operand(value: Any, frame: Any) -> SeriesState | None:
    """What an argument brings; None for one of which nothing is known."""
    if value.__class__ in _NUMBERS:
        number = scalar_provenance(value) or computed_scalar(value, frame)
        return SeriesState(number) if number else None
    if isinstance(value, pd.Series):
        state: SeriesState | None = getattr(value, STATE, None)
        return state
    if isinstance(value, pd.Index):
        return index_state(value)
    if isinstance(value, _OPERANDS):
        found = provenance_of(value)
    else:
        found = scalar_provenance(value) or (computed_scalar(value, frame) if is_scalar(value) else None)
    return SeriesState(found) if found else None


def given(value: Any, call: Call) -> Provenance:
    """What an argument brings; guessed from the statement for a list or a mapping that left pandas on its way."""
    operand = _operand(value, call.frame)
    if operand is not None:
        return operand.whole()
    if isinstance(value, np.ndarray):
        return brought(value, call)
    is_guessed = isinstance(value, _CONTAINERS) and not is_literal(value, call)
    return statement_provenance(call, call.name) if is_guessed else {}


def _give(name: str, series: Any, kwargs: dict[str, Any], result: Any, state: SeriesState, frame: Any) -> None:
    if isinstance(result, pd.Series):
        give_state(result, state)
        if state.index or state.rows:
            mark_index(result, state)
    elif result is None:
        if kwargs.get("inplace"):
            give_state(series, state)
    elif isinstance(result, pd.DataFrame):
        call = Call(name, series, (), kwargs, None, frame)
        call.result = result
        framed(call, state)
    else:
        for value in result if isinstance(result, tuple) else (result,):
            _hand_out(value, state, frame)


def _hand_out(value: Any, state: SeriesState, frame: Any) -> None:
    if isinstance(value, (np.ndarray, ExtensionArray)):
        remember_array(value, state.whole())
    elif isinstance(value, pd.Index):
        mark_series(value, state.provenance, None, state.rows)
    elif is_scalar(value):
        took(frame, value, state.whole())


def framed(call: Call, state: SeriesState, kind: Kind | None = None) -> None:
    """Record a frame made of one Series."""
    result = call.result
    fields: dict[Hashable, Provenance] = dict.fromkeys(result.columns, state.provenance)
    fields.update(levels_by_place(state.index or {}, index_names(result.index)))
    made(call, kind or kind_of(state), Listed(fields), state.rows, origin(state))


def origin(state: SeriesState) -> tuple[FrameVersion, ...]:
    """The frame whose rows the rows of a Series are; none if it was computed from several."""
    found = {version for provenance in (state.provenance, *(state.index or {}).values()) for version, _ in provenance}
    return tuple(found) if len(found) == 1 else ()


def kind_of(state: SeriesState) -> Kind:
    """The family of an operation that made a frame of a Series: what was done to the Series on the way."""
    flags = 0
    for provenance in (state.provenance, state.rows or {}):
        for value in provenance.values():
            flags |= value
    return (
        "aggregation"
        if flags & (AGGREGATION | GROUP_BY)
        else "transformation"
        if flags & TRANSFORMATION
        else "selection"
        if state.provenance
        else "creation"
    )


def mark_result(
    call: Call, provenance: Provenance, index: dict[Hashable, Provenance] | None = None, rows: Provenance | None = None
) -> None:
    """Give the state to the result, or to the subject that was changed in place."""
    target = call.result if isinstance(call.result, pd.Series) else call.subject if call.result is None else None
    if target is not None:
        mark_series(target, provenance, index, rows)


def where(call: Call) -> None:
    """Series.where, Series.mask."""
    state, condition, other = call.before, call.argument(0, "cond"), call.argument(1, "other")
    branches = through(union(state.provenance, known_here(other, call.frame)), TRANSFORMATION)
    mark_result(call, union(branches, used_for(known(condition), CONDITIONAL)), state.index, state.rows)


def coalesce(call: Call) -> None:
    """Series.fillna, Series.combine_first: either operand may be the value, and both decide which."""
    state, other = call.before, known_here(call.argument(0, "value", call.kwargs.get("other")), call.frame)
    both = union(state.provenance, other)
    mark_result(call, union(through(both, TRANSFORMATION), used_for(both, CONDITIONAL)), state.index, state.rows)


def mapped(call: Call) -> None:
    """Series.map: a lookup in another Series is a join; anything else a transformation."""
    state, mapper = call.before, call.argument(0, "func", call.kwargs.get("arg"))
    if isinstance(mapper, pd.Series):
        found = series_parts(mapper)
        keys = union(state.provenance, *(found.index or {}).values())
        mark_result(call, union(found.whole(), used_for(keys, JOIN)), state.index, state.rows)
    else:
        opaque = OPAQUE if is_opaque(mapper) else 0
        looked_up = statement_provenance(call, "map") if isinstance(mapper, dict) else used_outside(mapper, call.frame)
        mark_result(call, union(through(state.provenance, TRANSFORMATION | opaque), looked_up), state.index, state.rows)


def applied(call: Call) -> None:
    """Series.apply, Series.transform, Series.combine with a function: its inside is unknown."""
    state = call.before
    function = call.argument(1 if call.name == "combine" else 0, "func")
    step = TRANSFORMATION | (OPAQUE if is_opaque(function) else 0)
    others = [brought(value, call) for value in call.values()]
    provenance = through(union(state.provenance, *others, used_outside(function, call.frame)), step)
    if isinstance(call.result, pd.DataFrame):
        framed(call, SeriesState(provenance, state.index, state.rows), "transformation")
    elif isinstance(call.result, pd.Series):
        mark_series(call.result, provenance, state.index, state.rows)
    elif is_scalar(call.result):
        took(call.frame, call.result, through(provenance, AGGREGATION))


def selected(call: Call) -> None:
    """series[key]."""
    state, key, result = call.before, call.args[0], call.result
    if isinstance(result, pd.Series):
        mask = mask_uses(key, call, FILTER) if is_mask(key) else None
        mark_series(result, state.provenance, state.index, union(state.rows, mask) or None)
    elif is_scalar(result):
        took(call.frame, result, entry(state.whole(), key))


def entry(provenance: Provenance, label: Any) -> Provenance:
    """Of a Series that is laid along columns, such as a row or `df.mean()`: its entry of one label."""
    own = {field: flags for field, flags in provenance.items() if field[1] == label}
    # What chose the row chose each of its entries.
    rows = {field: flags & ~DIRECT for field, flags in provenance.items() if flags & INDIRECT and field not in own}
    return own | rows if own else provenance


def mask_uses(key: Any, call: Call, use: int) -> Provenance:
    """What a mask depends on; guessed from the statement if the mask left pandas on its way."""
    if getattr(key, STATE, None) is not None or provenance_of(key) is not None:
        return used_as(key, use)
    read = statement_provenance(call) if use == FILTER else inferred(union(*reads_of_target(call.frame)))
    return used_for(read, use)


def assigned(call: Call) -> None:
    """series[key] = value."""
    state, key, value = call.before, call.args[0], call.args[1]
    mask = used_as(key, CONDITIONAL) if isinstance(key, (pd.Series, np.ndarray)) else {}
    provenance = union(through(state.provenance, TRANSFORMATION), mask, through(known(value), TRANSFORMATION))
    mark_series(call.subject, provenance, state.index, state.rows)


def to_frame(call: Call) -> None:
    """Series.to_frame."""
    framed(call, call.before)


def handed_out(call: Call) -> None:
    """Series.to_dict, Series.items: values and labels, of which nothing is seen until they are back in a frame."""
    note_read(call.frame, union(call.before.whole(), *(call.before.index or {}).values()))


def unique(call: Call) -> None:
    """Series.unique, Series.to_numpy and the like: an array with the same provenance."""
    if isinstance(call.result, (np.ndarray, ExtensionArray)):
        remember_array(call.result, call.before.whole())
    elif isinstance(call.result, pd.Index):
        mark_series(call.result, call.before.whole())


def case_when(call: Call) -> None:
    """Series.case_when: conditions decide, replacements are values."""
    state, cases = call.before, call.argument(0, "caselist")
    conditions = union(*[known(condition) for condition, _ in cases])
    values = union(state.provenance, *[known_here(value, call.frame) for _, value in cases])
    mark_result(
        call, union(through(values, TRANSFORMATION), used_for(conditions, CONDITIONAL)), state.index, state.rows
    )


RULES: dict[str, Callable[[Call], None]] = {
    "where": where,
    "mask": where,
    "fillna": coalesce,
    "combine_first": coalesce,
    "map": mapped,
    "apply": applied,
    "transform": applied,
    "combine": applied,
    "__getitem__": selected,
    "__setitem__": assigned,
    "to_frame": to_frame,
    "unique": unique,
    "to_numpy": unique,
    "__array__": unique,
    "case_when": case_when,
    "items": handed_out,
    "to_dict": handed_out,
}
