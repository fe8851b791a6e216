"""Rules for assigning columns and cells of a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clew.capture.backends.base import Call
from clew.capture.backends.pandas.call import (
    record_created,
    record_mutated,
    record_result,
    value_provenance,
)
from clew.capture.backends.pandas.elementwise import align_rows
from clew.capture.backends.pandas.inference import (
    TracedCallback,
    evaluate_callback,
    evaluate_early,
    is_callback,
    is_expression,
)
from clew.capture.backends.pandas.selection import provenance_for_column, provenance_for_label
from clew.capture.backends.pandas.state import current_version, is_mask, is_scalar, provenance_or_empty
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.operations import IdentityEdges
from clew.capture.lineage.provenance import (
    Provenance,
    apply_direct,
    array_columns,
    coalesced,
    conditional,
    union,
)
from clew.capture.lineage.transformations import IDENTITY, TRANSFORMATION

if TYPE_CHECKING:
    from collections.abc import Hashable


def evaluate_setitem_key(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Evaluate the key of `df[lambda d: ...] = value` with tracing."""
    key, *rest = call.args
    if is_callback(key):
        call.args = (evaluate_early(key, call.receiver), *rest)
    return call.args, call.kwargs


def trace_setitem(call: Call) -> None:
    """Trace df[key] = value."""
    key, value = call.args
    version: FrameVersion = call.pre_state
    if key.__class__ is not str and (
        isinstance(key, pd.DataFrame)
        or (isinstance(key, np.ndarray) and key.ndim > 1)
        or isinstance(key, slice)
        or is_mask(key)
    ):
        fields = _assigned_cells(call, key, value)
    else:
        fields = _assigned_columns(call, key, value)
    record_mutated(call, IdentityEdges(version, IDENTITY, fields))


def _assigned_columns(call: Call, key: Any, value: Any) -> dict[Hashable, Provenance]:
    if value.__class__ is pd.Series and key.__class__ is str and call.receiver.columns.__class__ is pd.Index:
        return {key: value_provenance(value, call)}
    labels = list(key) if isinstance(key, (list, pd.Index, np.ndarray)) else [key]
    if isinstance(call.receiver.columns, pd.MultiIndex):
        labels = [_pad_label(label, call.receiver.columns) for label in labels]
    if isinstance(value, pd.DataFrame):
        source = current_version(value)
        return {label: source.field(column) for label, column in zip(labels, value.columns, strict=False)}
    return dict(zip(labels, provenance_per_column(value, len(labels), call), strict=True))


def provenance_per_column(value: Any, count: int, call: Call) -> list[Provenance]:
    """Return the provenance a value assigns to each column: arrays and lists by position, other values to all."""
    by_column = array_columns(value) if isinstance(value, np.ndarray) else None
    if by_column is not None and len(by_column) == count:
        return by_column
    if count > 1 and isinstance(value, (list, tuple)) and len(value) == count and all(map(is_scalar, value)):
        return [value_provenance(item, call) for item in value]
    return [value_provenance(value, call)] * count


def _pad_label(label: Any, columns: pd.MultiIndex) -> Any:
    """Pad a label for MultiIndex columns, where "x" is stored as ("x", "")."""
    levels = label if isinstance(label, tuple) else (label,)
    padded = (*levels, *[""] * (columns.nlevels - len(levels)))
    return padded if padded in columns else label


def _assigned_cells(call: Call, mask: Any, value: Any) -> dict[Hashable, Provenance]:
    version: FrameVersion = call.pre_state
    assigned = {} if isinstance(value, pd.DataFrame) else value_provenance(value, call)
    return {
        label: conditional(
            union(
                version.field(label),
                provenance_for_column(value, label) if isinstance(value, pd.DataFrame) else assigned,
            ),
            provenance_for_column(mask, label) if not isinstance(mask, slice) else None,
        )
        for label in call.receiver.columns
    }


def trace_insert(call: Call) -> None:
    """Trace df.insert(position, column, value)."""
    label, value = call.argument(1, "column"), call.argument(2, "value")
    record_mutated(call, IdentityEdges(call.pre_state, IDENTITY, {label: value_provenance(value, call)}))


def trace_isetitem(call: Call) -> None:
    """Trace df.isetitem(position, value)."""
    positions, value = call.argument(0, "loc"), call.argument(1, "value")
    labels = [
        call.receiver.columns[position]
        for position in (positions if isinstance(positions, (list, tuple)) else [positions])
    ]
    record_mutated(call, IdentityEdges(call.pre_state, IDENTITY, _assigned_columns(call, labels, value)))


def trace_update(call: Call) -> None:
    """Trace df.update(other): values of `other` where it is not null."""
    version: FrameVersion = call.pre_state
    other = call.argument(0, "other")
    source = current_version(other) if isinstance(other, pd.DataFrame) else None
    if source is None:
        updates = {getattr(other, "name", None): provenance_or_empty(other)}
    else:
        updates = {label: source.field(label) for label in version.columns if source.has(label)}
    fields = {label: apply_direct(union(version.field(label), new), TRANSFORMATION) for label, new in updates.items()}
    record_mutated(call, IdentityEdges(version, IDENTITY, fields))


def wrap_assign_callbacks(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Wrap the callbacks of `assign`; each sees the columns assigned before it."""
    version: FrameVersion = call.pre_state
    assigned: dict[Any, Provenance] = {}
    kwargs: dict[str, Any] = {}
    for label, value in call.kwargs.items():
        if is_callback(value):
            kwargs[label] = TracedCallback(value, version, assigned, label, call)
        else:
            kwargs[label] = value
            assigned[label] = value_provenance(value, call)
    call.pre_state = (version, assigned)
    return call.args, kwargs


def trace_assign(call: Call) -> None:
    """Trace df.assign(**columns), and df.select(*columns), which is new in pandas 3.1."""
    version, assigned = call.pre_state if isinstance(call.pre_state, tuple) else (call.pre_state, {})
    record_created(call, IdentityEdges(version, IDENTITY, assigned), None, (version,))


def wrap_select_callbacks(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Evaluate the expressions of `df.select(pd.col(...))` an extra time to trace them; they have no side effects."""
    expressions = list(call.args[0]) if len(call.args) == 1 and isinstance(call.args[0], list) else list(call.args)
    values = [evaluate_callback(expression, call.receiver) for expression in expressions if is_expression(expression)]
    selected = {value.name: provenance_or_empty(value) for value in values if isinstance(value, pd.Series)}
    _, kwargs = wrap_assign_callbacks(call)
    # Updated in place: the callbacks add to this mapping while pandas runs them.
    call.pre_state[1].update(selected)
    return call.args, kwargs


def trace_fillna(call: Call) -> None:
    """Trace df.fillna(value): a scalar, or the entry of a mapping, Series or frame for each column."""
    version: FrameVersion = call.pre_state
    value = call.argument(0, "value")
    fields = {}
    for label in call.output_frame.columns:
        if isinstance(value, (dict, pd.Series, pd.DataFrame)) and label not in value:
            continue
        # A Series fills each column from its entry with that label, as in `df.fillna(df.mean())`.
        fields[label] = coalesced(version.field(label), provenance_for_label(value, label))
    record_result(call, IdentityEdges(version, IDENTITY, fields))


def trace_combine_first(call: Call) -> None:
    """Trace df.combine_first(other): values come from either frame, conditional on both."""
    version: FrameVersion = call.pre_state
    source = current_version(call.argument(0, "other"))
    fields = {}
    for label in call.result.columns:
        sides = [side.field(label) for side in (version, source) if side.has(label)]
        fields[label] = coalesced(*sides) if source.has(label) else union(*sides)
    edges = IdentityEdges(version, IDENTITY, fields)
    record_created(call, edges, align_rows(call, edges, [source]), (version, source))
