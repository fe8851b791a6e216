"""Rules of element-wise methods, `query`/`eval` expressions and NumPy functions; rules of unknown methods."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd

from clew.capture.backends.base import Call, Rule
from clew.capture.backends.pandas.call import (
    ARITHMETIC_METHODS,
    OPERATORS,
    argument_provenance,
    assign_to_result,
    infer_from_statement,
    infer_scalar,
    is_untracked_array,
    operand_provenance,
    record_created,
    record_mutated,
    record_result,
)
from clew.capture.backends.pandas.inference import closure_provenance, is_opaque
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
from clew.capture.introspection.user_code import read_locals
from clew.capture.lineage.frame_version import column_labels
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges
from clew.capture.lineage.provenance import (
    Provenance,
    SeriesLineage,
    apply_direct,
    as_indirect,
    attach_to_array,
    attach_to_series,
    conditional,
    scalar_provenance,
    union,
    zip_by_position,
)
from clew.capture.lineage.transformations import (
    AGGREGATION,
    FILTER,
    IDENTITY,
    JOIN,
    OPAQUE,
    TRANSFORMATION,
)

if TYPE_CHECKING:
    from clew.capture.lineage.frame_version import FrameVersion


_QUOTED = re.compile(r"`([^`]+)`")
_LOCAL = "_clew_local_"


class VariableRead(NamedTuple):
    """A variable in an expression, and the attribute or item of it that is read: `@b.k` or `@b["k"]`."""

    name: str
    item: Hashable = None


class ExpressionStatement(NamedTuple):
    """One statement of an expression: assignment target, columns and variables read, and whether it is a copy."""

    target: str | None
    columns: list[str]
    variables: list[VariableRead]
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
    target, expression = None, cast("ast.AST", statement)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        target = quoted.get(statement.targets[0].id, statement.targets[0].id)
        expression = statement.value
    nodes = list(ast.walk(expression))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    items = {id(node.value): _read_item(node) for node in nodes if isinstance(node, (ast.Attribute, ast.Subscript))}
    columns = [
        quoted.get(name, name) for name in dict.fromkeys(node.id for node in names) if not name.startswith(_LOCAL)
    ]
    variables = [
        VariableRead(node.id.removeprefix(_LOCAL), items.get(id(node))) for node in names if node.id.startswith(_LOCAL)
    ]
    is_copy = isinstance(statement, (ast.Assign, ast.Expr)) and isinstance(statement.value, ast.Name)
    return ExpressionStatement(target, columns, variables, is_copy)


def _read_item(node: ast.Attribute | ast.Subscript) -> Hashable:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.slice.value if isinstance(node.slice, ast.Constant) else None


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
    record_result(call, IdentityEdges(version), rows)


def _statement_inputs(
    statement: ExpressionStatement, version: FrameVersion, assigned: dict[Hashable, Provenance], call: Call
) -> Provenance:
    columns = [
        assigned[name] if name in assigned else version.field(name)
        for name in statement.columns
        if name in assigned or version.has(name)
    ]
    return union(*columns, *[_variable_provenance(call, variable) for variable in statement.variables])


def _variable_provenance(call: Call, variable: VariableRead) -> Provenance:
    name = variable.name
    local_dict = call.kwargs.get("local_dict") or {}
    value = local_dict.get(name, read_locals(call.caller).get(name, call.caller.f_globals.get(name)))
    if isinstance(value, pd.DataFrame) and variable.item is not None:
        version = current_version(value)
        if version.has(variable.item):
            return version.field(variable.item)
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
        record_result(call, IdentityEdges(version, IDENTITY, assigned))
    elif isinstance(call.result, pd.Series):
        attach_to_series(call.result, value, version.levels() or None)
    elif isinstance(call.result, pd.DataFrame):
        call.kind = "selection"
        record_result(call, IdentityEdges(version))
    else:
        assign_to_result(call, value)


# Position of an `axis` argument that is keyword-only.
KEYWORD_ONLY = 99
ColumnSources = Callable[[Call, list[Hashable], int], list[Hashable]]


class RowAxis(NamedTuple):
    """A method with axis=1: position of the argument, and the columns that each column is computed from."""

    position: int
    sources: ColumnSources


def all_columns(_: Call, labels: list[Hashable], __: int) -> list[Hashable]:
    """Return all columns, as for `rank`."""
    return labels


def columns_up_to(_: Call, labels: list[Hashable], position: int) -> list[Hashable]:
    """Return a column and those before it, as for `cumsum`."""
    return labels[: position + 1]


def columns_from(_: Call, labels: list[Hashable], position: int) -> list[Hashable]:
    """Return a column and those after it, as for `bfill`."""
    return labels[position:]


def column_and_offset(call: Call, labels: list[Hashable], position: int) -> list[Hashable]:
    """Return a column and the one `periods` before it, as for `diff`."""
    periods = call.argument(0, "periods", 1)
    positions = sorted({position - periods, position}) if isinstance(periods, int) else range(len(labels))
    return [labels[index] for index in positions if 0 <= index < len(labels)]


def _offset_column(call: Call, labels: list[Hashable], position: int) -> list[Hashable]:
    periods = call.argument(0, "periods", 1)
    if not isinstance(periods, int):
        return labels
    return labels[position - periods : position - periods + 1] if position >= periods else []


def per_column_rule(step: int, axis: RowAxis | None = None) -> Rule:
    """Build a rule that applies one step to every column, merged with the provenance of the arguments."""

    def rule(call: Call) -> None:
        version: FrameVersion = call.pre_state
        if axis is not None and call.argument(axis.position, "axis", 0) in (1, "columns"):
            _trace_axis1(call, axis.sources)
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
            record_mutated(call, edges)
        else:
            rows = align_rows(call, edges, parents) if parents and version.index_names else None
            record_created(call, edges, rows, (version, *parents))

    return rule


def _trace_axis1(call: Call, sources_of: ColumnSources) -> None:
    """Trace cumsum, ffill, shift with axis=1: a column comes from other columns of the same row."""
    version: FrameVersion = call.pre_state
    labels = column_labels(version.columns)
    opaque = OPAQUE if is_opaque(call.argument(0, "func")) else 0
    sources = [
        version.fields(sources_of(call, labels, position), TRANSFORMATION | opaque) for position in range(len(labels))
    ]
    record_result(call, IdentityEdges(version, TRANSFORMATION | opaque, zip_by_position(labels, sources)))


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


def named_columns_rule(position: int, name: str) -> Rule:
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
        record_result(call, IdentityEdges(version, IDENTITY, fields))

    return rule


def trace_index_conversion(call: Call) -> None:
    """Trace tz_convert, to_period and similar: the index is transformed, the columns are unchanged."""
    version: FrameVersion = call.pre_state
    levels = {name: apply_direct(version.field(name), TRANSFORMATION) for name in version.index_names}
    record_created(call, IdentityEdges(version, IDENTITY, levels), None, (version,))


_shift_values = per_column_rule(TRANSFORMATION, RowAxis(2, _offset_column))


def trace_shift(call: Call) -> None:
    """Trace df.shift(periods): shifts the rows, or the index if `freq` is set."""
    if call.argument(1, "freq") is None:
        _shift_values(call)
    else:
        trace_index_conversion(call)


def function_rule(axis: RowAxis | None = None) -> Rule:
    """Build a rule for df.map(function), df.transform(function): each column by a possibly opaque function."""

    def rule(call: Call) -> None:
        per_column_rule(TRANSFORMATION | (OPAQUE if is_opaque(call.argument(0, "func")) else 0), axis)(call)

    return rule


def trace_compare(call: Call) -> None:
    """Trace df.compare(other): the columns are pairs of (label, self or other)."""
    version, other = call.pre_state, current_version(call.argument(0, "other"))
    fields: dict[Hashable, Provenance] = {}
    for label in call.result.columns:
        column = label[0] if isinstance(label, tuple) else label
        fields[label] = union(
            *[apply_direct(side.field(column), TRANSFORMATION) for side in (version, other) if side.has(column)]
        )
    record_created(call, IdentityEdges(version, TRANSFORMATION, fields), None, (version, other))


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
    provenance = conditional(values, conditions)
    attach_to_array(call.result, provenance)
    if provenance:
        # Later arithmetic must depend on this result, not on the reads that led to it.
        record_read(call.caller, provenance)


def trace_np_positions(call: Call) -> None:
    """Trace np.nonzero(condition) and similar: one array of positions per dimension."""
    provenance = apply_direct(provenance_or_empty(call.args[0]), TRANSFORMATION)
    _assign_to_results(call, provenance)


def _assign_to_results(call: Call, provenance: Provenance, lineage: SeriesLineage | None = None) -> None:
    """Attach provenance to each result; a Series has the index and the rows of `lineage`."""
    index, rows = (lineage.index, lineage.rows) if lineage is not None else (None, None)
    for result in call.result if isinstance(call.result, tuple) else (call.result,):
        if isinstance(result, pd.Series):
            attach_to_series(result, provenance, index, rows)
        else:
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


def np_function_rule(step: int) -> Rule:
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
    ufunc, method = call.args[:2]
    # With a prefix: `np.add` is not the method `add` of a frame.
    call.name = f"ufunc.{ufunc.__name__ if method == '__call__' else method}"
    if isinstance(call.receiver, pd.DataFrame):
        call.pre_state = current_version(call.receiver)
        call.args = call.args[2:]
        per_column_rule(TRANSFORMATION)(call)
        return
    lineages = [lineage_or_empty(value) for value in call.args if isinstance(value, pd.Series)]
    step = AGGREGATION if method == "reduce" else TRANSFORMATION
    provenance = apply_direct(union(*[provenance_or_empty(value) for value in call.values()]), step)
    rows = union(*[lineage.rows for lineage in lineages]) or None
    _assign_to_results(call, provenance, SeriesLineage({}, lineages[0].index, rows) if lineages else None)


def trace_value_function(call: Call) -> None:
    """Trace cut, to_datetime, isna: computed from the first argument."""
    value = call.first_argument()
    if isinstance(value, pd.DataFrame) and isinstance(call.result, pd.DataFrame):
        version = current_version(value)
        record_created(call, IdentityEdges(version, TRANSFORMATION), None, (version,))
        return
    provenance = apply_direct(
        union(*[argument_provenance(argument, call) for argument in call.values()]), TRANSFORMATION
    )
    if provenance or isinstance(call.result, pd.Series):
        _assign_to_results(call, provenance, lineage_or_empty(value) if isinstance(value, pd.Series) else None)


def trace_categorical_init(call: Call) -> None:
    """Trace pd.Categorical(values)."""
    attach_to_array(call.receiver, apply_direct(provenance_or_empty(call.argument(0, "values")), TRANSFORMATION))


def trace_unknown_method(call: Call) -> None:
    """Trace a method without a rule, e.g. of a newer pandas: from all columns, flagged OPAQUE."""
    version: FrameVersion = call.pre_state
    result = call.result
    step = TRANSFORMATION | OPAQUE
    if isinstance(result, pd.DataFrame):
        all_columns = version.fields(None, step)
        fields = {label: all_columns for label in result.columns if not version.has(label)}
        call.kind = "unknown"
        record_created(call, IdentityEdges(version, step, fields), None, (version,))
    elif isinstance(result, pd.Series):
        attach_to_series(result, version.fields(None, step))


def trace_unknown_function(call: Call) -> None:
    """Trace a function without a rule: every column comes from all arguments, flagged OPAQUE."""
    versions = [current_version(value) for value in call.values() if isinstance(value, pd.DataFrame)]
    known = union(*[provenance_or_empty(value) for value in call.values()])
    provenance = apply_direct(known or infer_from_statement(call, call.name), TRANSFORMATION | OPAQUE)
    if isinstance(call.result, pd.DataFrame):
        record_created(call, ExplicitEdges(dict.fromkeys(call.result.columns, provenance)), None, tuple(versions))
