"""Rules of element-wise methods, `query`/`eval` expressions and NumPy functions."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.core.generic import NDFrame

from clew.capture.backends.base import Call
from clew.capture.backends.pandas.call import (
    ARITHMETIC_METHODS,
    OPERATORS,
    argument_provenance,
    assign_to_result,
    infer_scalar,
    is_untracked_array,
    operand_provenance,
    record_created,
    record_mutated,
    record_result,
)
from clew.capture.backends.pandas.inference import closure_provenance, is_opaque
from clew.capture.backends.pandas.patching import patches
from clew.capture.backends.pandas.selection import provenance_for_column, provenance_for_label
from clew.capture.backends.pandas.series import is_realigned
from clew.capture.backends.pandas.state import (
    current_version,
    is_scalar,
    lineage_or_empty,
    mark_inferred,
    provenance_of,
    provenance_or_empty,
)
from clew.capture.introspection.read_tracking import reads_defining, record_read, scalar_sources_of_name
from clew.capture.lineage.frame_version import column_labels
from clew.capture.lineage.operations import IdentityEdges
from clew.capture.lineage.provenance import (
    Provenance,
    apply_direct,
    as_indirect,
    attach_to_array,
    attach_to_series,
    scalar_provenance,
    union,
    zip_by_position,
)
from clew.capture.lineage.transformations import (
    AGGREGATION,
    CONDITIONAL,
    FILTER,
    IDENTITY,
    JOIN,
    OPAQUE,
    TRANSFORMATION,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from clew.capture.lineage.frame_version import FrameVersion


_QUOTED = re.compile(r"`([^`]+)`")
_LOCAL = "_clew_local_"


class ExpressionStatement(NamedTuple):
    """One statement of an expression: assignment target, columns and variables read, and whether it is a copy."""

    target: str | None
    columns: list[str]
    variables: list[str]
    is_copy: bool


def parse_expression(text: str) -> list[ExpressionStatement]:
    """Parse an expression into statements; a name in backticks is a column."""
    quoted: dict[str, str] = {}

    def unquote(match: re.Match[str]) -> str:
        name = f"_clew_quoted_{len(quoted)}"
        quoted[name] = match[1]
        return name

    identifiers = _QUOTED.sub(unquote, text).replace("@", _LOCAL)
    return [_parse_statement(node, quoted) for node in ast.parse(_strip_lines(identifiers)).body]


def _strip_lines(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _parse_statement(statement: ast.stmt, quoted: dict[str, str]) -> ExpressionStatement:
    names = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    target = None
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        target = quoted.get(statement.targets[0].id, statement.targets[0].id)
        names = [node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)]
    columns = [quoted.get(name, name) for name in dict.fromkeys(names) if not name.startswith(_LOCAL)]
    variables = [name.removeprefix(_LOCAL) for name in names if name.startswith(_LOCAL)]
    is_copy = isinstance(statement, (ast.Assign, ast.Expr)) and isinstance(statement.value, ast.Name)
    return ExpressionStatement(target, columns, variables, is_copy)


def trace_query(call: Call) -> None:
    """Trace df.query(text)."""
    version: FrameVersion = call.pre_state
    try:
        inputs = [
            _statement_inputs(statement, version, {}, call) for statement in parse_expression(call.argument(0, "expr"))
        ]
        rows = as_indirect(union(*inputs), FILTER)
    except (SyntaxError, TypeError):
        rows = version.fields(None, FILTER | OPAQUE)
    record_result(call, "selection", IdentityEdges(version), rows)


def _statement_inputs(
    statement: ExpressionStatement, version: FrameVersion, assigned: dict[Hashable, Provenance], call: Call
) -> Provenance:
    columns = [
        assigned[name] if name in assigned else version.field(name)
        for name in statement.columns
        if name in assigned or version.has(name)
    ]
    return union(*columns, *[_variable_provenance(call, name) for name in statement.variables])


def _variable_provenance(call: Call, name: str) -> Provenance:
    local_dict = call.kwargs.get("local_dict") or {}
    value = local_dict.get(name, call.caller.f_locals.get(name, call.caller.f_globals.get(name)))
    provenance = provenance_of(value)
    if provenance is None:
        # The value left pandas: a list, or a scalar from plain Python arithmetic.
        is_scalar_value = is_scalar(value)
        reads = (
            scalar_sources_of_name(name, call.caller, is_scalar)
            if is_scalar_value
            else reads_defining(call.caller, {name})
        )
        return mark_inferred(union(*reads))
    return provenance


def trace_eval(call: Call) -> None:
    """Trace df.eval(text): assignments set columns, an expression returns a Series."""
    version: FrameVersion = call.pre_state
    assigned: dict[Hashable, Provenance] = {}
    value: Provenance = {}
    for statement in parse_expression(call.argument(0, "expr")):
        value = apply_direct(
            _statement_inputs(statement, version, assigned, call), IDENTITY if statement.is_copy else TRANSFORMATION
        )
        if statement.target is not None:
            assigned[statement.target] = value
    if assigned:
        record_result(call, "assignment", IdentityEdges(version, IDENTITY, assigned))
    elif isinstance(call.result, pd.Series):
        attach_to_series(call.result, value, {name: version.field(name) for name in version.index_names} or None)
    elif isinstance(call.result, pd.DataFrame):
        record_result(call, "selection", IdentityEdges(version))
    else:
        assign_to_result(call, value)


EVAL_RULES: dict[str, Callable[[Call], None]] = {"query": trace_query, "eval": trace_eval}


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


_ELEMENTWISE_FUNCTIONS = (
    "concatenate hstack vstack stack clip round isin digitize nan_to_num interp searchsorted repeat append"
).split()


def trace_np_where(call: Call) -> None:
    """Trace np.where(condition, x, y); without x and y it returns positions."""
    if len(call.args) < 3:
        trace_np_positions(call)
        return
    condition, x, y = call.args[:3]
    _assign_conditional(
        call,
        union(argument_provenance(x, call), argument_provenance(y, call)),
        argument_provenance(condition, call),
    )


def _assign_conditional(call: Call, values: Provenance, conditions: Provenance) -> None:
    provenance = union(apply_direct(values, TRANSFORMATION), as_indirect(conditions, CONDITIONAL))
    attach_to_array(call.result, provenance)
    if provenance:
        # Later arithmetic must depend on this result, not on the reads that led to it.
        record_read(call.caller, provenance)


def trace_np_positions(call: Call) -> None:
    """Trace np.nonzero(condition) and similar: one array of positions per dimension."""
    provenance = apply_direct(provenance_or_empty(call.args[0]), TRANSFORMATION)
    for result in call.result if isinstance(call.result, tuple) else (call.result,):
        call.result = result
        assign_to_result(call, provenance)


def trace_np_select(call: Call) -> None:
    """Trace np.select(conditions, choices, default)."""
    conditions, choices, default = (
        call.argument(0, "condlist"),
        call.argument(1, "choicelist"),
        call.argument(2, "default"),
    )
    # Each choice separately: the provenance of a mixed list does not include its untracked scalars.
    values = union(
        argument_provenance(choices, call), *[operand_provenance(choice, call.caller) for choice in (*choices, default)]
    )
    _assign_conditional(call, values, argument_provenance(conditions, call))


def np_function_rule(step: int) -> Callable[[Call], None]:
    """Build a rule for a function of all its arguments."""

    def rule(call: Call) -> None:
        provenance = apply_direct(union(*[argument_provenance(value, call) for value in call.values()]), step)
        if not provenance or isinstance(call.result, pd.DataFrame):
            return
        if isinstance(call.result, pd.Series):
            lineages = [lineage_or_empty(value) for value in call.values() if isinstance(value, pd.Series)]
            attach_to_series(call.result, provenance, lineages[0].index if lineages else None)
        else:
            assign_to_result(call, provenance)

    return rule


def trace_np_column_stack(call: Call) -> None:
    """Trace np.column_stack(columns): each argument is one column of the result."""
    arrays = call.argument(0, "tup")
    if not isinstance(arrays, (list, tuple)) or any(np.ndim(array) != 1 for array in arrays):
        np_function_rule(TRANSFORMATION)(call)
        return
    columns = [apply_direct(argument_provenance(array, call), TRANSFORMATION) for array in arrays]
    attach_to_array(call.result, union(*columns), columns)


def trace_ufunc(call: Call) -> None:
    """Trace np.log(series), np.maximum(frame, 0): elementwise, or a reduction by `np.add.reduce`."""
    if isinstance(call.receiver, pd.DataFrame):
        call.pre_state = current_version(call.receiver)
        call.args = call.args[2:]
        per_column_rule(TRANSFORMATION)(call)
        return
    lineages = [lineage_or_empty(value) for value in call.args if isinstance(value, pd.Series)]
    step = AGGREGATION if call.args[1] == "reduce" else TRANSFORMATION
    provenance = apply_direct(union(*[provenance_or_empty(value) for value in call.values()]), step)
    rows = union(*[lineage.rows for lineage in lineages]) or None
    for result in call.result if isinstance(call.result, tuple) else (call.result,):
        if isinstance(result, pd.Series):
            attach_to_series(result, provenance, lineages[0].index if lineages else None, rows)
        else:
            call.result = result
            assign_to_result(call, provenance)


def patch_numpy() -> None:
    """Patch the NumPy functions that notebooks call with columns."""
    # One wrapper for both classes: pandas compares their `__array_ufunc__` to order the operands.
    patches.method(NDFrame, "__array_ufunc__", trace_ufunc)
    patches.function(np, "where", trace_np_where)
    patches.function(np, "select", trace_np_select)
    patches.function(np, "column_stack", trace_np_column_stack)
    for name in ("nonzero", "flatnonzero", "argwhere", "argsort"):
        patches.function(np, name, trace_np_positions)
    for name in _ELEMENTWISE_FUNCTIONS:
        patches.function(np, name, np_function_rule(TRANSFORMATION))
    for name in ("dot", "percentile", "average"):
        patches.function(np, name, np_function_rule(AGGREGATION))


__all__ = ["patch_numpy"]
