"""Rules of Series methods and of their index."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from clew.capture.backends.base import Call, Rule
from clew.capture.backends.pandas.call import (
    argument_provenance,
    infer_from_statement,
    infer_scalar,
    is_code_literal,
    operand_provenance,
    record_created,
    record_extracted_scalar,
    record_value,
    single_parent,
)
from clew.capture.backends.pandas.inference import closure_provenance, is_opaque
from clew.capture.backends.pandas.patching import patches
from clew.capture.backends.pandas.state import (
    index_lineage,
    indirect_use,
    is_mask,
    is_scalar,
    level_provenance,
    levels_by_position,
    lineage_or_empty,
    mark_inferred,
    provenance_of,
    provenance_or_empty,
    resolve_level_names,
)
from clew.capture.diagnostics import record_error
from clew.capture.introspection.bytecode import is_result_kept
from clew.capture.introspection.read_tracking import reads_in_target, record_read
from clew.capture.introspection.user_code import guard, strip_frame
from clew.capture.lineage.frame_version import STATE_ATTR, index_names, set_state
from clew.capture.lineage.operations import ExplicitEdges, OperationType
from clew.capture.lineage.provenance import (
    Provenance,
    SeriesLineage,
    apply_direct,
    as_indirect,
    attach_to_array,
    attach_to_index,
    attach_to_series,
    coalesced,
    conditional,
    scalar_provenance,
    union,
)
from clew.capture.lineage.transformations import (
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

if TYPE_CHECKING:
    from collections.abc import Hashable


_OPERAND_TYPES = (pd.Series, np.ndarray, pd.Index, pd.DataFrame, list, tuple, ExtensionArray)
_NUMBER_TYPES = (int, float)
# Their items have left pandas.
_CONTAINERS = (list, tuple, set, frozenset, dict)
_UNTRACKED_TYPES = (*_CONTAINERS, np.ndarray)


class SeriesMethod(NamedTuple):
    """Effect of a Series method on values, rows and index."""

    # DIRECT transformation of the values.
    step: int = TRANSFORMATION
    # INDIRECT use of the values for the rows.
    row_use: int = 0
    drops_index: bool = False
    # Whether the arguments select rows, or are operands aligned by index.
    selects_rows: bool = False
    aligns_index: bool = False

    def kind(self) -> OperationType:
        """Return the operation type."""
        if self.step == IDENTITY:
            return "sort" if self.row_use == SORT else "selection"
        return "aggregation" if self.drops_index else "transformation"


def patch_series_method(name: str, method: SeriesMethod) -> None:
    """Patch a Series method to compose lineage."""
    original = getattr(pd.Series, name)

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            try:
                return original(self, *args, **kwargs)
            except BaseException as error:
                strip_frame(error)
                raise
        guard.depth = 1
        try:
            result = original(self, *args, **kwargs)
            try:
                _compose_lineage(name, method, self, args, kwargs, result, sys._getframe(1))
            except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
                record_error(f"Series.{name}", error)
        except BaseException as error:
            strip_frame(error)
            raise
        finally:
            guard.depth = 0
        return result

    functools.update_wrapper(wrapper, original)
    patches.replace(pd.Series, name, wrapper)


def _compose_lineage(
    name: str,
    method: SeriesMethod,
    series: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
    caller: Any,
) -> None:
    lineage = getattr(series, STATE_ATTR, None)
    provenance = lineage.provenance if lineage is not None else None
    rows = lineage.rows if lineage is not None else None
    operand_index = None
    for value in (*args, *kwargs.values()) if kwargs else args:
        operand = _operand_lineage(value, caller)
        if operand is not None:
            if method.selects_rows:
                rows = union(rows, as_indirect(operand.provenance, FILTER))
            else:
                provenance = union(provenance, operand.provenance)
            rows = union(rows, operand.rows) if operand.rows else rows
            if method.aligns_index and operand.index and isinstance(result, pd.Series):
                operand_index = operand.index
        elif isinstance(value, _UNTRACKED_TYPES):
            provenance = union(
                provenance, series_argument_provenance(value, Call(name, series, args, kwargs, lineage, caller))
            )
    if not provenance and not rows:
        _attach_no_sources(lineage, result)
        return
    if method.row_use:
        rows = union(rows, as_indirect(provenance, method.row_use))
    index = lineage.index if lineage is not None and not method.drops_index else None
    if operand_index is not None and is_realigned(series, result):
        # Both operands were aligned by index.
        rows = union(
            rows,
            *[as_indirect(level, JOIN) for levels in (index or {}, operand_index) for level in levels.values()],
        )
        index = {name: union((index or {}).get(name), operand_index.get(name)) for name in index_names(result.index)}
    _assign_result(
        name, series, kwargs, result, SeriesLineage(apply_direct(provenance, method.step), index, rows), caller
    )
    if is_result_kept(caller.f_code, caller.f_lasti):
        call = Call(name, series, args, kwargs, lineage, caller, method.kind())
        call.result = result
        record_value(call)


def _attach_no_sources(lineage: SeriesLineage | None, result: Any) -> None:
    """Attach empty lineage to a Series made of one of literals, which has no sources but is known."""
    if lineage is not None and isinstance(result, pd.Series):
        set_state(result, SeriesLineage({}))


def series_in_place_rule(method: SeriesMethod) -> Rule:
    """Build a rule for a method with `inplace`: a step of the values and the arguments."""

    def rule(call: Call) -> None:
        lineage = call.pre_state
        operands = [series_argument_provenance(value, call) for value in call.values()]
        provenance = apply_direct(union(lineage.provenance, *operands), method.step)
        target = call.result if isinstance(call.result, pd.Series) else call.receiver
        attach_to_series(target, provenance, lineage.index, lineage.rows)

    return rule


def is_realigned(receiver: Any, result: Any) -> bool:
    """Return whether the result has another index than the receiver, i.e. the operands were aligned."""
    index, result_index = receiver.index, result.index
    return index is not result_index and not index.equals(result_index)


def _operand_lineage(value: Any, caller: Any) -> SeriesLineage | None:
    """Return the lineage of an argument; None if it is unknown."""
    if value.__class__ in _NUMBER_TYPES:
        provenance = scalar_provenance(value) or infer_scalar(value, caller)
        return SeriesLineage(provenance) if provenance else None
    if isinstance(value, pd.Series):
        lineage: SeriesLineage | None = getattr(value, STATE_ATTR, None)
        return lineage
    if isinstance(value, pd.Index):
        return index_lineage(value)
    if isinstance(value, _OPERAND_TYPES):
        operand = provenance_of(value)
    else:
        operand = scalar_provenance(value) or (infer_scalar(value, caller) if is_scalar(value) else None)
    return SeriesLineage(operand) if operand else None


def series_argument_provenance(value: Any, call: Call) -> Provenance:
    """Return the provenance of an argument; inferred from the statement for containers that left pandas."""
    operand = _operand_lineage(value, call.caller)
    if operand is not None:
        return operand.combined()
    if isinstance(value, np.ndarray):
        return argument_provenance(value, call)
    is_inferred = isinstance(value, _CONTAINERS) and not is_code_literal(value, call)
    return infer_from_statement(call, call.name) if is_inferred else {}


def _assign_result(
    name: str, series: Any, kwargs: dict[str, Any], result: Any, lineage: SeriesLineage, caller: Any
) -> None:
    if isinstance(result, pd.Series):
        set_state(result, lineage)
        if lineage.index or lineage.rows:
            attach_to_index(result, lineage)
    elif result is None:
        if kwargs.get("inplace"):
            set_state(series, lineage)
    elif isinstance(result, pd.DataFrame):
        call = Call(name, series, (), kwargs, None, caller)
        call.result = result
        record_to_frame(call, lineage)
    else:
        for value in result if isinstance(result, tuple) else (result,):
            _assign_value(value, lineage, caller)


def _assign_value(value: Any, lineage: SeriesLineage, caller: Any) -> None:
    if isinstance(value, (np.ndarray, ExtensionArray)):
        attach_to_array(value, lineage.combined())
    elif isinstance(value, pd.Index):
        attach_to_series(value, lineage.provenance, None, lineage.rows)
    elif is_scalar(value):
        record_extracted_scalar(caller, value, lineage.combined())


def record_to_frame(call: Call, lineage: SeriesLineage, kind: OperationType | None = None) -> None:
    """Record a frame created from one Series."""
    result = call.result
    fields: dict[Hashable, Provenance] = dict.fromkeys(result.columns, lineage.provenance)
    fields.update(levels_by_position(lineage.index or {}, index_names(result.index)))
    call.kind = kind or operation_type(lineage)
    record_created(call, ExplicitEdges(fields), lineage.rows, single_parent(lineage))


def operation_type(lineage: SeriesLineage) -> OperationType:
    """Return the type of an operation that creates a frame from a Series, by the transformations of the Series."""
    flags = 0
    for provenance in (lineage.provenance, lineage.rows or {}):
        for value in provenance.values():
            flags |= value
    return (
        "aggregation"
        if flags & (AGGREGATION | GROUP_BY)
        else "transformation"
        if flags & TRANSFORMATION
        else "selection"
        if lineage.provenance
        else "creation"
    )


def assign_to_series_result(call: Call, provenance: Provenance, rows: Provenance | None = None) -> None:
    """Attach lineage to the result, or to the receiver if it was mutated in place; index and rows are unchanged."""
    lineage: SeriesLineage = call.pre_state
    target = call.result if isinstance(call.result, pd.Series) else call.receiver if call.result is None else None
    if target is not None:
        attach_to_series(target, provenance, lineage.index, union(lineage.rows, rows) or None)


def trace_series_where(call: Call) -> None:
    """Trace Series.where, Series.mask."""
    lineage, condition, other = call.pre_state, call.argument(0, "cond"), call.argument(1, "other")
    branches = union(lineage.provenance, operand_provenance(other, call.caller))
    assign_to_series_result(call, conditional(branches, provenance_or_empty(condition)))


def trace_series_fillna(call: Call) -> None:
    """Trace Series.fillna, Series.combine_first: values come from either operand, conditional on both."""
    other = operand_provenance(call.argument(0, "value", call.kwargs.get("other")), call.caller)
    assign_to_series_result(call, coalesced(call.pre_state.provenance, other))


def trace_series_map(call: Call) -> None:
    """Trace Series.map: a lookup in another Series is a join, other mappers are a transformation."""
    lineage, mapper = call.pre_state, call.argument(0, "func", call.kwargs.get("arg"))
    if isinstance(mapper, pd.Series):
        mapper_lineage = lineage_or_empty(mapper)
        keys = union(lineage.provenance, *(mapper_lineage.index or {}).values())
        assign_to_series_result(call, union(mapper_lineage.combined(), as_indirect(keys, JOIN)))
    else:
        opaque = OPAQUE if is_opaque(mapper) else 0
        inputs = (
            infer_from_statement(call, "map") if isinstance(mapper, dict) else closure_provenance(mapper, call.caller)
        )
        assign_to_series_result(call, union(apply_direct(lineage.provenance, TRANSFORMATION | opaque), inputs))


def trace_series_apply(call: Call) -> None:
    """Trace Series.apply, Series.transform, Series.combine with a possibly opaque function."""
    lineage = call.pre_state
    function = call.argument(1 if call.name == "combine" else 0, "func")
    step = TRANSFORMATION | (OPAQUE if is_opaque(function) else 0)
    arguments = [argument_provenance(value, call) for value in call.values()]
    provenance = apply_direct(union(lineage.provenance, *arguments, closure_provenance(function, call.caller)), step)
    if isinstance(call.result, pd.DataFrame):
        record_to_frame(call, SeriesLineage(provenance, lineage.index, lineage.rows), call.kind)
    elif isinstance(call.result, pd.Series):
        attach_to_series(call.result, provenance, lineage.index, lineage.rows)
    elif is_scalar(call.result):
        record_extracted_scalar(call.caller, call.result, apply_direct(provenance, AGGREGATION))


def trace_series_getitem(call: Call) -> None:
    """Trace series[key]."""
    lineage, key, result = call.pre_state, call.args[0], call.result
    if isinstance(result, pd.Series):
        mask = mask_provenance(key, call, FILTER) if is_mask(key) else None
        attach_to_series(result, lineage.provenance, lineage.index, union(lineage.rows, mask) or None)
    elif is_scalar(result):
        record_extracted_scalar(call.caller, result, entry_for_label(lineage.combined(), key))


def entry_for_label(provenance: Provenance, label: Any) -> Provenance:
    """Return one entry of a Series indexed by columns, such as a row or `df.mean()`."""
    entry = {field: flags for field, flags in provenance.items() if field[1] == label}
    # INDIRECT provenance applies to every entry.
    rows = {field: flags & ~DIRECT for field, flags in provenance.items() if flags & INDIRECT and field not in entry}
    return entry | rows if entry else provenance


def mask_provenance(key: Any, call: Call, use: int) -> Provenance:
    """Return the provenance of a mask; inferred from the statement if the mask left pandas."""
    if getattr(key, STATE_ATTR, None) is not None or provenance_of(key) is not None:
        return indirect_use(key, use)
    inferred = infer_from_statement(call) if use == FILTER else mark_inferred(union(*reads_in_target(call.caller)))
    return as_indirect(inferred, use)


def trace_series_setitem(call: Call) -> None:
    """Trace series[key] = value."""
    key = call.args[0]
    record_series_cells(call, indirect_use(key, CONDITIONAL) if isinstance(key, (pd.Series, np.ndarray)) else {})


def record_series_cells(call: Call, rows: Provenance) -> None:
    """Attach lineage to a Series after `series[key] = value`, `series.loc[key] = value`; `rows` is that of the key."""
    lineage, value = call.pre_state, call.args[1]
    provenance = union(
        apply_direct(lineage.provenance, TRANSFORMATION), rows, apply_direct(provenance_or_empty(value), TRANSFORMATION)
    )
    attach_to_series(call.receiver, provenance, lineage.index, lineage.rows)


def trace_series_to_frame(call: Call) -> None:
    """Trace Series.to_frame."""
    record_to_frame(call, call.pre_state)


def trace_series_export(call: Call) -> None:
    """Trace Series.to_dict, Series.items: plain values without provenance, recorded as a read."""
    record_read(call.caller, union(call.pre_state.combined(), *(call.pre_state.index or {}).values()))


def trace_series_to_array(call: Call) -> None:
    """Trace Series.unique, Series.to_numpy, Series.values and similar: an array with the same provenance."""
    if isinstance(call.result, (np.ndarray, ExtensionArray)):
        attach_to_array(call.result, call.pre_state.combined())
    elif isinstance(call.result, pd.Index):
        attach_to_series(call.result, call.pre_state.combined())


def trace_series_case_when(call: Call) -> None:
    """Trace Series.case_when: replacements are values, conditions are INDIRECT."""
    lineage, cases = call.pre_state, call.argument(0, "caselist")
    conditions = union(*[provenance_or_empty(condition) for condition, _ in cases])
    values = union(lineage.provenance, *[operand_provenance(value, call.caller) for _, value in cases])
    assign_to_series_result(call, conditional(values, conditions))


def trace_series_rename_axis(call: Call) -> None:
    """Trace Series.rename_axis: levels get new names by position."""
    lineage = call.pre_state
    if isinstance(call.result, pd.Series):
        levels = levels_by_position(lineage.index or {}, index_names(call.result.index))
        attach_to_series(call.result, lineage.provenance, levels or None, lineage.rows)


def trace_series_index_conversion(call: Call) -> None:
    """Trace Series.tz_convert, Series.to_period and similar: the index is transformed, the values are unchanged."""
    lineage = call.pre_state
    levels = {name: apply_direct(provenance, TRANSFORMATION) for name, provenance in (lineage.index or {}).items()}
    attach_to_series(call.result, lineage.provenance, levels or None, lineage.rows)


def trace_series_shift(call: Call) -> None:
    """Trace Series.shift(periods): shifts the values, or the index if `freq` is set."""
    lineage = call.pre_state
    shifted = SeriesLineage(apply_direct(lineage.provenance, TRANSFORMATION), lineage.index, lineage.rows)
    if call.argument(1, "freq") is not None:
        trace_series_index_conversion(call)
    elif isinstance(call.result, pd.Series):
        attach_to_series(call.result, shifted.provenance, shifted.index, shifted.rows)
    else:
        record_to_frame(call, shifted)


def trace_series_sort_index(call: Call) -> None:
    """Trace Series.sort_index(level=...): sorted by the named levels."""
    lineage, levels = call.pre_state, call.pre_state.index or {}
    names = resolve_level_names(call.receiver, call.kwargs.get("level")) or levels
    rows = union(*[as_indirect(levels.get(name), SORT) for name in names])
    assign_to_series_result(call, lineage.provenance, rows)


def trace_series_reindex(call: Call) -> None:
    """Trace Series.reindex: values are looked up by label, as in `map`."""
    lineage, labels, result = call.pre_state, call.argument(0, "index"), call.result
    label_provenance = provenance_or_empty(labels)
    if not label_provenance:
        attach_to_series(result, lineage.provenance, lineage.index, lineage.rows)
        return
    rows = union(
        lineage.rows,
        *[as_indirect(provenance, JOIN) for provenance in (label_provenance, *(lineage.index or {}).values())],
    )
    attach_to_series(result, lineage.provenance, level_provenance(labels, index_names(result.index)) or None, rows)


def trace_series_align(call: Call) -> None:
    """Trace series.align(other): both Series are returned with the same index."""
    for source, result in zip((call.receiver, call.argument(0, "other")), call.result, strict=True):
        if isinstance(source, pd.Series):
            lineage = lineage_or_empty(source)
            attach_to_series(result, lineage.provenance, lineage.index, lineage.rows)


def trace_series_reset_index(call: Call) -> None:
    """Trace Series.reset_index: the named levels become columns."""
    lineage, result = call.pre_state, call.result
    if isinstance(result, pd.DataFrame):
        names = index_names(call.receiver.index)
        level_fields = levels_by_position(lineage.index or {}, names)
        fields = {label: level_fields.get(label, {}) for label in (*result.columns, *names)}
        fields[result.columns[-1]] = lineage.provenance
        call.kind = operation_type(lineage)
        record_created(call, ExplicitEdges(fields), lineage.rows, single_parent(lineage))
    else:
        attach_to_series(result if result is not None else call.receiver, lineage.provenance, None, lineage.rows)


def trace_series_unstack(call: Call) -> None:
    """Trace Series.unstack: one level becomes columns."""
    lineage, result = call.pre_state, call.result
    if not isinstance(result, pd.DataFrame):
        return
    names = index_names(result.index)
    moved_levels = union(
        *[
            as_indirect(provenance, GROUP_BY)
            for level, provenance in (lineage.index or {}).items()
            if level not in names
        ]
    )
    fields: dict[Hashable, Provenance] = dict.fromkeys(result.columns, lineage.provenance)
    fields.update({name: (lineage.index or {}).get(name, {}) for name in names})
    record_created(call, ExplicitEdges(fields), union(lineage.rows, moved_levels))


def trace_series_value_counts(call: Call) -> None:
    """Trace Series.value_counts: a count has no DIRECT source; the values become its index."""
    lineage = call.pre_state
    rows = union(lineage.rows, as_indirect(lineage.provenance, GROUP_BY))
    attach_to_series(call.result, {}, {call.receiver.name: lineage.provenance}, rows)
