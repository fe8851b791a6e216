"""Rules for operations that compute each column from the column with the same label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clew.capture.flags import AGGREGATION, IDENTITY, JOIN, OPAQUE, TRANSFORMATION
from clew.capture.frames.calls import (
    Call,
    argument_provenance,
    assign_to_result,
    infer_scalar,
    is_untracked_array,
    record_created,
    record_mutated,
)
from clew.capture.frames.functions import closure_provenance, is_opaque
from clew.capture.frames.operators import ARITHMETIC_METHODS, OPERATORS
from clew.capture.frames.selection import provenance_for_column, provenance_for_label
from clew.capture.frames.series import is_realigned
from clew.capture.frames.state import current_version, is_scalar, provenance_of, provenance_or_empty
from clew.capture.provenance import Provenance, apply_direct, as_indirect, scalar_provenance, union, zip_by_position
from clew.capture.records import IdentityEdges
from clew.capture.versions import column_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from clew.capture.versions import FrameVersion


def per_column_rule(step: int) -> Callable[[Call], None]:
    """Build a rule that applies one step to every column, merged with the provenance of the arguments."""

    def rule(call: Call) -> None:
        version: FrameVersion = call.pre_state
        if call.name in _AXIS_POSITIONS and _is_axis1(call):
            _trace_axis1(call)
            return
        operands = [value for value in call.values() if _has_provenance(value)]
        external = union(*[_external_provenance(value, call) for value in call.values()])
        output = call.output_frame
        if not isinstance(output, pd.DataFrame):
            assign_to_result(
                call, apply_direct(union(version.fields(), *map(provenance_or_empty, operands), external), step)
            )
            return
        fields = None
        if operands or external:
            fields = _fields_with_operands(version, output.columns, operands, step, _operand_lookup(call), external)
        edges = IdentityEdges(version, step, fields)
        parents = [current_version(value) for value in operands if isinstance(value, pd.DataFrame)]
        if call.is_in_place or call.result is call.receiver:
            record_mutated(call, "transformation", edges)
        else:
            rows = align_rows(call, edges, parents) if parents and version.index_names else None
            record_created(call, "transformation", edges, rows, (version, *parents))

    return rule


# Position of the `axis` argument; 99 for methods where it is keyword-only.
_AXIS_POSITIONS = {
    "rank": 0,
    "cumsum": 0,
    "cumprod": 0,
    "cummax": 0,
    "cummin": 0,
    "diff": 1,
    "transform": 1,
    "shift": 2,
}
_AXIS_POSITIONS |= dict.fromkeys(("ffill", "bfill", "pct_change", "interpolate"), 99)
_PREFIX_METHODS = ("ffill", "cumsum", "cumprod", "cummax", "cummin")
_OFFSET_METHODS = ("diff", "pct_change", "shift")


def _is_axis1(call: Call) -> bool:
    return call.argument(_AXIS_POSITIONS[call.name], "axis", 0) in (1, "columns")


def _trace_axis1(call: Call) -> None:
    """Trace cumsum, ffill, shift with axis=1: a column comes from other columns of the same row."""
    version: FrameVersion = call.pre_state
    labels = column_labels(version.columns)
    opaque = OPAQUE if is_opaque(call.argument(0, "func")) else 0
    sources = [
        version.fields(_row_sources(call, labels, position), TRANSFORMATION | opaque) for position in range(len(labels))
    ]
    edges = IdentityEdges(version, TRANSFORMATION | opaque, zip_by_position(labels, sources))
    if call.is_in_place:
        record_mutated(call, "transformation", edges)
    else:
        record_created(call, "transformation", edges, None, (version,))


def _row_sources(call: Call, labels: list[Hashable], position: int) -> list[Hashable]:
    """Return the columns that the column at `position` is computed from."""
    if call.name in _PREFIX_METHODS:
        return labels[: position + 1]
    if call.name == "bfill":
        return labels[position:]
    periods = call.argument(0, "periods", 1)
    if call.name not in _OFFSET_METHODS or not isinstance(periods, int):
        return labels
    positions = {position - periods} if call.name == "shift" else {position - periods, position}
    return [labels[index] for index in sorted(positions) if 0 <= index < len(labels)]


def align_rows(call: Call, edges: IdentityEdges, others: list[FrameVersion]) -> Provenance | None:
    """Add the index levels of aligned frames to `edges`; return them as JOIN provenance of the rows."""
    if not is_realigned(call.receiver, call.result):
        return None
    sides = [edges.source, *others]
    levels = {name: union(*[side.field(name) for side in sides if side.has(name)]) for name in edges.source.index_names}
    edges.changed = {**levels, **(edges.changed or {})}
    return union(*[as_indirect(provenance, JOIN) for provenance in levels.values()])


def _external_provenance(value: Any, call: Call) -> Provenance:
    """Return the provenance of an operand that left pandas: a scalar, an array, or the closure of a function."""
    if is_scalar(value):
        return infer_scalar(value, call.caller) if scalar_provenance(value) is None else {}
    return (
        closure_provenance(value, call.caller)
        if callable(value)
        else argument_provenance(value, call)
        if is_untracked_array(value)
        else {}
    )


def _has_provenance(value: Any) -> bool:
    if isinstance(value, (pd.DataFrame, pd.Series, np.ndarray, list, dict)):
        return isinstance(value, (pd.DataFrame, dict)) or provenance_of(value) is not None
    return scalar_provenance(value) is not None


def _operand_lookup(call: Call) -> Callable[[Any, Hashable], Provenance]:
    """Return how operands align with columns: a Series by label, unless it is aligned with the rows."""
    is_method_by_label = call.name in ARITHMETIC_METHODS and call.argument(1, "axis", 1) in (1, "columns")
    by_label = call.name in OPERATORS or is_method_by_label
    return provenance_for_label if by_label else provenance_for_column


def _fields_with_operands(
    version: FrameVersion,
    labels: Any,
    operands: list[Any],
    step: int,
    lookup: Callable[[Any, Hashable], Provenance],
    external: Provenance,
) -> dict[Hashable, Provenance]:
    fields = {}
    for label in labels:
        own_provenance = version.field(label) if version.has(label) else {}
        fields[label] = apply_direct(
            union(own_provenance, *[lookup(operand, label) for operand in operands], external), step
        )
    return fields


def named_columns_rule(position: int, name: str) -> Callable[[Call], None]:
    """Build a rule for astype, replace, round: with a mapping only the named columns are transformed."""
    all_columns = per_column_rule(TRANSFORMATION)

    def rule(call: Call) -> None:
        version: FrameVersion = call.pre_state
        mapping = call.argument(position, name)
        if not isinstance(mapping, dict) or not mapping or not all(version.has(label) for label in mapping):
            all_columns(call)
            return
        fields = {
            label: apply_direct(union(version.field(label), provenance_or_empty(value)), TRANSFORMATION)
            for label, value in mapping.items()
        }
        edges = IdentityEdges(version, IDENTITY, fields)
        if call.is_in_place:
            record_mutated(call, "transformation", edges)
        else:
            record_created(call, "transformation", edges, None, (version,))

    return rule


def trace_index_conversion(call: Call) -> None:
    """Trace tz_convert, to_period and similar: the index is transformed, the columns are unchanged."""
    version: FrameVersion = call.pre_state
    levels = {name: apply_direct(version.field(name), TRANSFORMATION) for name in version.index_names}
    record_created(call, "transformation", IdentityEdges(version, IDENTITY, levels), None, (version,))


def trace_shift(call: Call) -> None:
    """Trace df.shift(periods): shifts the rows, or the index if `freq` is set."""
    if call.argument(1, "freq") is None:
        per_column_rule(TRANSFORMATION)(call)
    else:
        trace_index_conversion(call)


def trace_map(call: Call) -> None:
    """Trace df.map(function), df.transform(function): each column by a possibly opaque function."""
    per_column_rule(TRANSFORMATION | (OPAQUE if is_opaque(call.argument(0, "func")) else 0))(call)


def trace_compare(call: Call) -> None:
    """Trace df.compare(other): the columns are pairs of (label, self or other)."""
    version, other = call.pre_state, current_version(call.argument(0, "other"))
    fields: dict[Hashable, Provenance] = {}
    for label in call.result.columns:
        column = label[0] if isinstance(label, tuple) else label
        fields[label] = union(
            *[apply_direct(side.field(column), TRANSFORMATION) for side in (version, other) if side.has(column)]
        )
    record_created(call, "transformation", IdentityEdges(version, TRANSFORMATION, fields), None, (version, other))


_PER_COLUMN_METHODS = (
    "abs bfill clip convert_dtypes diff ffill interpolate isin isna isnull notna notnull pct_change rank combine"
).split()

RULES: dict[str, Callable[[Call], None]] = {
    **dict.fromkeys((*_PER_COLUMN_METHODS, *ARITHMETIC_METHODS, *OPERATORS), per_column_rule(TRANSFORMATION)),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), per_column_rule(AGGREGATION)),
    **dict.fromkeys(("to_period", "to_timestamp", "tz_convert", "tz_localize"), trace_index_conversion),
    "shift": trace_shift,
    "map": trace_map,
    "transform": trace_map,
    "compare": trace_compare,
    "astype": named_columns_rule(0, "dtype"),
    "replace": named_columns_rule(0, "to_replace"),
    "round": named_columns_rule(0, "decimals"),
}
