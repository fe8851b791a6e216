"""Rules for query and eval: parse the expression text for columns and variables."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from clew.capture.flags import FILTER, IDENTITY, OPAQUE, TRANSFORMATION
from clew.capture.frames.calls import Call, assign_to_result, record_result
from clew.capture.frames.state import is_scalar, mark_inferred, provenance_of
from clew.capture.provenance import Provenance, apply_direct, as_indirect, attach_to_series, union
from clew.capture.records import IdentityEdges
from clew.capture.statements import reads_defining, scalar_sources_of_name

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from clew.capture.versions import FrameVersion

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
