"""Rules for query and eval: the columns that an expression in text speaks of."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from clew.capture.flags import FILTER, IDENTITY, OPAQUE, TRANSFORMATION
from clew.capture.frames.calls import Call, made_or_changed, spread
from clew.capture.frames.state import inferred, is_scalar, provenance_of
from clew.capture.provenance import Provenance, mark_series, through, union, used_for
from clew.capture.records import SameLabels
from clew.capture.statements import reads_filling, scalars_filling

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from clew.capture.versions import FrameVersion

_QUOTED = re.compile(r"`([^`]+)`")
_LOCAL = "_clew_local_"


class Part(NamedTuple):
    """One statement of an expression: what it assigns, the columns and local variables it reads, and if that is all."""

    target: str | None
    columns: list[str]
    variables: list[str]
    is_copy: bool


def parts_of(text: str) -> list[Part]:
    """Take an expression apart; a name in backticks is a column whatever it looks like."""
    quoted: dict[str, str] = {}

    def unquote(found: re.Match[str]) -> str:
        name = f"_clew_quoted_{len(quoted)}"
        quoted[name] = found[1]
        return name

    plain = _QUOTED.sub(unquote, text).replace("@", _LOCAL)
    return [_part(statement, quoted) for statement in ast.parse(_lines(plain)).body]


def _lines(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _part(statement: ast.stmt, quoted: dict[str, str]) -> Part:
    names = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    target = None
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        target = quoted.get(statement.targets[0].id, statement.targets[0].id)
        names = [node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)]
    plain = [quoted.get(name, name) for name in dict.fromkeys(names) if not name.startswith(_LOCAL)]
    variables = [name.removeprefix(_LOCAL) for name in names if name.startswith(_LOCAL)]
    is_copy = isinstance(statement, (ast.Assign, ast.Expr)) and isinstance(statement.value, ast.Name)
    return Part(target, plain, variables, is_copy)


def query(call: Call) -> None:
    """df.query(text)."""
    version: FrameVersion = call.before
    try:
        read = [_reads(part, version, {}, call) for part in parts_of(call.argument(0, "expr"))]
        rows = used_for(union(*read), FILTER)
    except (SyntaxError, TypeError):
        rows = version.fields(None, FILTER | OPAQUE)
    made_or_changed(call, "selection", SameLabels(version), rows)


def _reads(part: Part, version: FrameVersion, assigned: dict[Hashable, Provenance], call: Call) -> Provenance:
    columns = [
        assigned[name] if name in assigned else version.field(name)
        for name in part.columns
        if name in assigned or version.has(name)
    ]
    return union(*columns, *[_variable(call, name) for name in part.variables])


def _variable(call: Call, name: str) -> Provenance:
    given = call.kwargs.get("local_dict") or {}
    value = given.get(name, call.frame.f_locals.get(name, call.frame.f_globals.get(name)))
    found = provenance_of(value)
    if found is None:
        # A list or the like left pandas on its way here, a single value went through plain arithmetic.
        is_single = is_scalar(value)
        reads = scalars_filling(name, call.frame, is_scalar) if is_single else reads_filling(call.frame, {name})
        return inferred(union(*reads))
    return found


def evaluate(call: Call) -> None:
    """df.eval(text): assignments change or add columns, a plain expression gives a Series."""
    version: FrameVersion = call.before
    assigned: dict[Hashable, Provenance] = {}
    value: Provenance = {}
    for part in parts_of(call.argument(0, "expr")):
        value = through(_reads(part, version, assigned, call), IDENTITY if part.is_copy else TRANSFORMATION)
        if part.target is not None:
            assigned[part.target] = value
    if assigned:
        made_or_changed(call, "assignment", SameLabels(version, IDENTITY, assigned))
    elif isinstance(call.result, pd.Series):
        mark_series(call.result, value, {name: version.field(name) for name in version.index_names} or None)
    elif isinstance(call.result, pd.DataFrame):
        made_or_changed(call, "selection", SameLabels(version))
    else:
        spread(call, value)


RULES: dict[str, Callable[[Call], None]] = {"query": query, "eval": evaluate}
