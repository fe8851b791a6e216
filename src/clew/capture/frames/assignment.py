"""Rules for setting columns and cells of a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clew.capture.flags import CONDITIONAL, IDENTITY, TRANSFORMATION
from clew.capture.frames.callbacks import Watched, evaluated, is_callback, is_expression
from clew.capture.frames.calls import (
    Call,
    changed,
    made,
    made_or_changed,
    value_provenance,
)
from clew.capture.frames.elementwise import rows_aligned
from clew.capture.frames.selection import entry_of, of_column
from clew.capture.frames.state import (
    is_mask,
    is_scalar,
    known,
    version_of,
)
from clew.capture.provenance import Provenance, array_columns, through, union, used_for
from clew.capture.records import SameLabels
from clew.capture.versions import FrameVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


def evaluate_key(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`df[lambda d: ...] = value`: the key is evaluated where it is seen."""
    key, *rest = call.args
    if is_callback(key):
        call.args = (evaluated(key, call.subject), *rest)
    return call.args, call.kwargs


def setitem(call: Call) -> None:
    """df[key] = value."""
    key, value = call.args
    version: FrameVersion = call.before
    if key.__class__ is not str and (
        isinstance(key, pd.DataFrame)
        or (isinstance(key, np.ndarray) and key.ndim > 1)
        or isinstance(key, slice)
        or is_mask(key)
    ):
        fields = _set_cells(call, key, value)
    else:
        fields = _set_columns(call, key, value)
    changed(call, "assignment", SameLabels(version, IDENTITY, fields))


def _set_columns(call: Call, key: Any, value: Any) -> dict[Hashable, Provenance]:
    if value.__class__ is pd.Series and key.__class__ is str and call.subject.columns.__class__ is pd.Index:
        return {key: value_provenance(value, call)}
    labels = list(key) if isinstance(key, (list, pd.Index, np.ndarray)) else [key]
    if isinstance(call.subject.columns, pd.MultiIndex):
        labels = [_padded(label, call.subject.columns) for label in labels]
    if isinstance(value, pd.DataFrame):
        source = version_of(value)
        return {label: source.field(column) for label, column in zip(labels, value.columns, strict=False)}
    return dict(zip(labels, given_to_columns(value, len(labels), call), strict=True))


def given_to_columns(value: Any, count: int, call: Call) -> list[Provenance]:
    """What a value gives to each of several columns: an array or a list by position, anything else to all alike."""
    by_column = array_columns(value) if isinstance(value, np.ndarray) else None
    if by_column is not None and len(by_column) == count:
        return by_column
    if count > 1 and isinstance(value, (list, tuple)) and len(value) == count and all(map(is_scalar, value)):
        return [value_provenance(one, call) for one in value]
    return [value_provenance(value, call)] * count


def _padded(label: Any, columns: pd.MultiIndex) -> Any:
    """Among columns of several levels "x" is stored as ("x", "")."""
    parts = label if isinstance(label, tuple) else (label,)
    padded = (*parts, *[""] * (columns.nlevels - len(parts)))
    return padded if padded in columns else label


def _set_cells(call: Call, mask: Any, value: Any) -> dict[Hashable, Provenance]:
    version: FrameVersion = call.before
    assigned = {} if isinstance(value, pd.DataFrame) else value_provenance(value, call)
    return {
        label: union(
            through(version.field(label), TRANSFORMATION),
            used_for(of_column(mask, label), CONDITIONAL) if not isinstance(mask, slice) else None,
            through(of_column(value, label) if isinstance(value, pd.DataFrame) else assigned, TRANSFORMATION),
        )
        for label in call.subject.columns
    }


def insert(call: Call) -> None:
    """df.insert(position, column, value)."""
    label, value = call.argument(1, "column"), call.argument(2, "value")
    changed(call, "assignment", SameLabels(call.before, IDENTITY, {label: value_provenance(value, call)}))


def isetitem(call: Call) -> None:
    """df.isetitem(position, value)."""
    places, value = call.argument(0, "loc"), call.argument(1, "value")
    labels = [call.subject.columns[place] for place in (places if isinstance(places, (list, tuple)) else [places])]
    changed(call, "assignment", SameLabels(call.before, IDENTITY, _set_columns(call, labels, value)))


def update(call: Call) -> None:
    """df.update(other): values of the other where it has any."""
    version: FrameVersion = call.before
    other = call.argument(0, "other")
    source = version_of(other) if isinstance(other, pd.DataFrame) else None
    if source is None:
        label = getattr(other, "name", None)
        fields = {label: union(through(version.field(label), TRANSFORMATION), through(known(other), TRANSFORMATION))}
    else:
        shared = [label for label in version.columns if source.has(label)]
        fields = {label: _overwritten(version.field(label), source.field(label)) for label in shared}
    changed(call, "assignment", SameLabels(version, IDENTITY, fields))


def _overwritten(old: Provenance, new: Provenance) -> Provenance:
    return union(through(old, TRANSFORMATION), through(new, TRANSFORMATION))


def watch_assigned(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Callbacks of `assign` run seen, each knowing the columns that were assigned before it."""
    version: FrameVersion = call.before
    assigned: dict[Any, Provenance] = {}
    kwargs: dict[str, Any] = {}
    for label, value in call.kwargs.items():
        if is_callback(value):
            kwargs[label] = Watched(value, version, assigned, label, call)
        else:
            kwargs[label] = value
            assigned[label] = value_provenance(value, call)
    call.before = (version, assigned)
    return call.args, kwargs


def assign(call: Call) -> None:
    """df.assign(**columns)."""
    version, assigned = call.before if isinstance(call.before, tuple) else (call.before, {})
    made(call, "assignment", SameLabels(version, IDENTITY, assigned), None, (version,))


def watch_selected(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`df.select(pd.col(...))`: expressions have no side effects, so they are evaluated again to see what they read."""
    given = list(call.args[0]) if len(call.args) == 1 and isinstance(call.args[0], list) else list(call.args)
    values = [evaluated(expression, call.subject) for expression in given if is_expression(expression)]
    selected = {value.name: known(value) for value in values if isinstance(value, pd.Series)}
    _, kwargs = watch_assigned(call)
    # The same mapping: callbacks add what they return while pandas runs them.
    call.before[1].update(selected)
    return call.args, kwargs


def select(call: Call) -> None:
    """DataFrame.select, new in pandas 3.1."""
    version, selected = call.before if isinstance(call.before, tuple) else (call.before, {})
    made(call, "selection", SameLabels(version, IDENTITY, selected), None, (version,))


def fillna(call: Call) -> None:
    """df.fillna(value): the value of a column, or of its own Series, frame or mapping entry."""
    version: FrameVersion = call.before
    value = call.argument(0, "value")
    fields = {}
    for label in call.target.columns:
        if isinstance(value, (dict, pd.Series, pd.DataFrame)) and label not in value:
            continue
        # A Series fills each column from its entry of that label, as `df.fillna(df.mean())` does.
        both = union(version.field(label), entry_of(value, label))
        fields[label] = union(through(both, TRANSFORMATION), used_for(both, CONDITIONAL))
    made_or_changed(call, "transformation", SameLabels(version, IDENTITY, fields))


def combine_first(call: Call) -> None:
    """df.combine_first(other): either frame may be the value, and both decide which."""
    version: FrameVersion = call.before
    source = version_of(call.argument(0, "other"))
    fields = {}
    for label in call.result.columns:
        both = union(*[one.field(label) for one in (version, source) if one.has(label)])
        fields[label] = union(through(both, TRANSFORMATION), used_for(both, CONDITIONAL)) if source.has(label) else both
    edges = SameLabels(version, IDENTITY, fields)
    made(call, "transformation", edges, rows_aligned(call, edges, [source]), (version, source))


RULES: dict[str, Callable[[Call], None]] = {
    "__setitem__": setitem,
    "insert": insert,
    "isetitem": isetitem,
    "update": update,
    "assign": assign,
    "select": select,
    "fillna": fillna,
    "combine_first": combine_first,
}
