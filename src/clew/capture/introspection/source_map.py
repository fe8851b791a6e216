"""Source map: from an instruction to its source text, lines and assigned variable."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.capture.introspection.bytecode import cached_by_code, source_positions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

_OPERATION_NODES = (ast.Call, ast.Subscript, ast.BinOp, ast.Compare, ast.UnaryOp, ast.Attribute, ast.Await)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Calls whose parameters belong to the method that follows, and the name of the first one.
_GROUPINGS = {"groupby": "by", "resample": "rule", "rolling": "window", "expanding": "min_periods", "ewm": "com"}
_MAX_SOURCE_CHARS = 100_000


class SourceLocation(NamedTuple):
    """Source location of an operation: text, lines within the cell, assigned variable and call parameters."""

    text: str
    line: int | None
    end_line: int | None
    target: str | None
    parameters: dict[str, Any]
    is_top_level: bool
    # Variables that the operation names, and the variable that each was assigned from by `name = other`, or itself.
    variables: tuple[tuple[str, str], ...] = ()


UNKNOWN_LOCATION = SourceLocation("", None, None, None, {}, is_top_level=False)


@dataclass
class SourceText:
    """Text of one cell or file, and its first line and column according to its code object."""

    text: str
    start: tuple[int, int] | None = None
    # First and last line if it is a range of a file; reported lines then count from the first.
    line_range: tuple[int, int] | None = None

    @cached_property
    def _lines(self) -> list[bytes]:
        # Bytes, because the columns of syntax nodes count bytes of UTF-8.
        return self.text.encode("utf-8", "replace").split(b"\n")

    @cached_property
    def _shift(self) -> tuple[int, int]:
        """Lines and columns between code and text: cells of a script may have the positions of the file."""
        if self.start is None or self.tree is None:
            return 0, 0
        starts = (start_of(_compile_statement(statement)) for statement in self.tree.body)
        line, column = next((start for start in starts if start is not None), self.start)
        return self.start[0] - line, self.start[1] - column

    @property
    def offset(self) -> int:
        """Lines between code and text."""
        return self._shift[0]

    @property
    def column_offset(self) -> int:
        """Columns between code and text: that of the setup cell may be indented."""
        return self._shift[1]

    def contains_line(self, line: int) -> bool:
        """Return whether a line number of a code object is in this text."""
        if self.line_range is not None:
            return self.line_range[0] <= line <= self.line_range[1]
        return 0 < line - self.offset <= len(self._lines)

    def cell_line(self, line: int) -> int:
        """Convert a line of the text to a line within its cell."""
        return line - self.line_range[0] + 1 if self.line_range is not None else line

    @cached_property
    def tree(self) -> ast.Module | None:
        """Syntax tree, or None if the text does not parse or is too long."""
        if len(self.text) > _MAX_SOURCE_CHARS:
            return None
        try:
            return ast.parse(self.text)
        except SyntaxError:
            # A cell may use `await` outside a function.
            return _parse_with_await(self.text)

    @cached_property
    def operations_by_end(self) -> dict[tuple[int, int], list[tuple[ast.expr, ast.stmt, bool]]]:
        """Operations by end position, with their statement and whether that is outside of any function."""
        operations: dict[tuple[int, int], list[tuple[ast.expr, ast.stmt, bool]]] = {}
        for statement, is_top_level in _iter_statements(self.tree):
            for node in _iter_own_nodes(statement):
                if isinstance(node, _OPERATION_NODES):
                    operations.setdefault((node.end_lineno or 0, node.end_col_offset or 0), []).append(
                        (node, statement, is_top_level)
                    )
        return operations

    @cached_property
    def operands_by_range(self) -> dict[tuple[int, int, int, int], tuple[ast.expr, ast.stmt, bool]]:
        """Operands of nodes that are no expression themselves, by the range of the node.

        These are the targets of `x += y`, and what loops and comprehensions iterate over: Python 3.11 and 3.12 report
        the range of the whole loop for an iteration.
        """
        operands = {}
        for statement, is_top_level in _iter_statements(self.tree):
            for node in (statement, *_iter_own_nodes(statement)):
                operand: ast.expr | None = None
                if isinstance(node, (ast.For, ast.AsyncFor)):
                    operand = node.iter
                elif isinstance(node, _COMPREHENSIONS):
                    operand = node.generators[0].iter
                elif isinstance(node, ast.AugAssign):
                    operand = node.target
                if operand is not None and isinstance(node, (ast.expr, ast.stmt)):
                    span = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
                    operands[span] = operand, statement, is_top_level
        return operands

    @cached_property
    def _assignments(self) -> dict[str, list[tuple[int, str | None]]]:
        """Lines that assign each variable outside of functions, and the other variable in `name = other`."""
        assignments: dict[str, list[tuple[int, str | None]]] = {}
        for statement in self.tree.body if self.tree is not None else ():
            value = statement.value if isinstance(statement, ast.Assign) else None
            other = value.id if isinstance(value, ast.Name) else None
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    assignments.setdefault(node.id, []).append((statement.lineno, other))
        return assignments

    def original_name(self, name: str, line: int) -> str:
        """Follow assignments of a variable from another one (`df = df1`) above a line."""
        earlier = [entry for entry in self._assignments.get(name, ()) if entry[0] < line]
        if not earlier or earlier[-1][1] is None:
            return name
        return self.original_name(earlier[-1][1], earlier[-1][0])

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """Return the text of a node."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        lines = self._lines[first : last + 1]
        # The end first: on a single line, cutting the start would shift it.
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"\n".join(lines).decode("utf-8", "replace")


def _compile_statement(statement: ast.stmt) -> CodeType:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: CodeType = compile(ast.Module([statement], []), "<cell>", "exec", flags, dont_inherit=True)
    return code


def _parse_with_await(text: str) -> ast.Module | None:
    try:
        tree = compile(text, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return None
    return tree if isinstance(tree, ast.Module) else None


def _iter_statements(tree: ast.AST | None, *, is_top_level: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    for node in ast.iter_child_nodes(tree) if tree is not None else ():
        if isinstance(node, ast.stmt):
            yield node, is_top_level
        inner = is_top_level and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))
        if isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _iter_statements(node, is_top_level=inner)


def _iter_own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement without those of nested statements."""
    pending: list[ast.AST] = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))


class Position(NamedTuple):
    """Position of an instruction according to its code object."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int


@cached_by_code
def position_of(code: CodeType, instruction: int) -> Position | None:
    """Return the position of an instruction, or None if its code has none."""
    positions = source_positions(code)
    if instruction // 2 >= len(positions):
        return None
    line, end_line, column, end_column = positions[instruction // 2]
    if line is None or end_line is None:
        return None
    return Position(code.co_filename, line, end_line, column or 0, end_column or 0)


def start_of(code: CodeType) -> tuple[int, int] | None:
    """Return the line and column of the first statement of a cell's code; None if it has no statement."""
    # Instructions that start a module or a coroutine have a line but no columns.
    starts = [(line, column or 0) for line, _, column, end_column in code.co_positions() if line and end_column]
    return min(starts, default=None)


class SourceMap:
    """Sources of a session by the file names of their code objects."""

    def __init__(self) -> None:
        self._by_file: dict[str, list[SourceText]] = {}
        # Texts of files, for code outside of cells.
        self._files: dict[str, SourceText] = {}
        self._locations: dict[Position, SourceLocation] = {}
        # Cells not parsed yet: in a kernel few are ever needed.
        self._pending: dict[tuple[str, str, tuple[int, int] | None], None] = {}

    def add_cell(self, text: str, file: str, start: tuple[int, int] | None) -> None:
        """Register a cell; `start` counts from the top of the file in a script, from the cell in a kernel."""
        key = (file, text, start)
        self._pending.pop(key, None)
        self._pending[key] = None

    def add_line_range(self, file: str, text: str, first: int, last: int) -> None:
        """Register a line range of a file as a cell that is compiled with the file."""
        self._replace(file, SourceText(text, line_range=(first, last)))

    def locate(self, position: Position | None) -> SourceLocation:
        """Return the source location at a position."""
        if position is None:
            return UNKNOWN_LOCATION
        for file, text, start in self._pending:
            self._replace(file, SourceText(text, start))
        self._pending.clear()
        if position not in self._locations:
            self._locations[position] = self._locate(position)
        return self._locations[position]

    def _replace(self, file: str, source: SourceText) -> None:
        """Replace the source with the same offset, unless it is equal."""
        sources = self._by_file.setdefault(file, [])
        if source in sources:
            return
        sources[:] = [other for other in sources if other.line_range is not None or other.offset != source.offset] + [
            source
        ]
        for position in [position for position in self._locations if position.file == file]:
            del self._locations[position]

    def _locate(self, position: Position) -> SourceLocation:
        source = self._source_at(position.file, position.line)
        if source is None:
            return SourceLocation("", position.line, position.end_line, None, {}, is_top_level=False)
        lines, columns = source.offset, source.column_offset
        shifted = (position.column - columns, position.end_column - columns)
        return _find_operation(source, position.line - lines, position.end_line - lines, *shifted)

    def _source_at(self, file: str, line: int) -> SourceText | None:
        for source in self._by_file.get(file, ()):
            if source.contains_line(line):
                return source
        text = "".join(linecache.getlines(file)) if file not in self._files else ""
        if text:
            self._files[file] = SourceText(text)
        return self._files.get(file)


def _find_operation(source: SourceText, line: int, end_line: int, column: int, end_column: int) -> SourceLocation:
    start = (line, column)
    operand = source.operands_by_range.get((line, column, end_line, end_column))
    candidates = (
        [operand]
        if operand is not None
        else [
            (node, statement, is_top_level)
            for node, statement, is_top_level in source.operations_by_end.get((end_line, end_column), ())
            if (node.lineno, node.col_offset) <= start
        ]
    )
    if not candidates:
        return SourceLocation("", line, end_line, None, {}, is_top_level=False)
    node, statement, is_top_level = max(
        candidates, key=lambda candidate: (candidate[0].lineno, candidate[0].col_offset)
    )
    shown: ast.expr | ast.stmt = statement if _is_store_target(node, statement) else node
    return SourceLocation(
        source.segment(shown),
        source.cell_line(shown.lineno),
        source.cell_line(shown.end_lineno or shown.lineno),
        _assigned_variable(node, statement),
        _parameters(source, node),
        is_top_level,
        tuple((name, source.original_name(name, statement.lineno)) for name in _operand_names(node)),
    )


def _operand_names(node: ast.expr) -> list[str]:
    """Return the variables that are the receiver or an argument of an operation."""
    operands = [getattr(node, "value", None)]
    if isinstance(node, ast.Call):
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(receiver, ast.Subscript):
            # `df["a"].sum()`, `df.loc[...]`
            receiver = receiver.value
        operands = [receiver, *node.args, *[keyword.value for keyword in node.keywords]]
    elif isinstance(node, (ast.BinOp, ast.Compare)):
        operands = list(ast.iter_child_nodes(node))
    roots = [item for operand in operands for item in (getattr(operand, "elts", None) or [operand])]
    return [name for root in roots if (name := _root_name(root)) is not None]


def _root_name(node: Any) -> str | None:
    """Return `df` of `df`, `df.loc`, `df["a"]` and `df.groupby("k")`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_store_target(node: ast.expr, statement: ast.stmt) -> bool:
    """Return whether a statement assigns to or deletes the node: then the whole statement is the operation."""
    return isinstance(statement, ast.AugAssign) or isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))


def _assigned_variable(node: ast.expr, statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign):
        return next(
            (name for target in statement.targets for name in [_assigned_name(target, statement.value, node)] if name),
            None,
        )
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id if statement.target is node else None
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return _assigned_name(statement.target, statement.value, node)
    for inner in _iter_own_nodes(statement):
        if isinstance(inner, ast.NamedExpr) and inner.value is node:
            return inner.target.id
    return None


def _assigned_name(target: ast.expr, value: ast.expr, node: ast.expr) -> str | None:
    if isinstance(target, ast.Name):
        return target.id if value is node or (isinstance(value, ast.Await) and value.value is node) else None
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = zip(target.elts, value.elts, strict=True)
        return next((name for left, right in pairs if (name := _assigned_name(left, right, node))), None)
    return None


def _parameters(source: SourceText, node: ast.expr) -> dict[str, Any]:
    """Return the names and literals of a call as written in the code, never data."""
    if isinstance(node, ast.Subscript):
        return {"key": source.segment(node.slice)}
    if not isinstance(node, ast.Call):
        return {}
    positional = [_literal(source, argument) for argument in node.args]
    named = {keyword.arg: _literal(source, keyword.value) for keyword in node.keywords if keyword.arg}
    function = node.func
    if positional and isinstance(function, ast.Attribute) and function.attr in _GROUPINGS:
        named = {_GROUPINGS[function.attr]: positional.pop(0), **named}
    grouping = _grouping_parameters(source, function.value) if isinstance(function, ast.Attribute) else {}
    return {**grouping, **({"args": positional} if positional else {}), **named}


def _grouping_parameters(source: SourceText, receiver: ast.expr) -> dict[str, Any]:
    """Return the parameters of `groupby("k")["a"]` for a method of it."""
    selected: dict[str, Any] = {}
    if isinstance(receiver, (ast.Subscript, ast.Attribute)):
        selected = {"key": source.segment(receiver.slice)} if isinstance(receiver, ast.Subscript) else {}
        receiver = receiver.value
    is_grouping = (
        isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute) and receiver.func.attr in _GROUPINGS
    )
    return {**_parameters(source, receiver), **selected} if is_grouping else {}


def _literal(source: SourceText, node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return source.segment(node)
    return _to_plain(value)


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_to_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else repr(value)
