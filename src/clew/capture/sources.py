"""From an instruction to the text it was compiled from: the exact code, its lines, and the name it is assigned to."""

from __future__ import annotations

import ast
import itertools
import linecache
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

_OPERATIONS = (ast.Call, ast.Subscript, ast.BinOp, ast.Compare, ast.UnaryOp, ast.Attribute, ast.Await)
_LONGEST = 100_000
_POSITIONS_KEPT = 10_000


class Place(NamedTuple):
    """Where an operation stands: its text, its lines within the cell, and the variable it is assigned to."""

    text: str
    line: int | None
    end_line: int | None
    target: str | None
    parameters: dict[str, Any]
    is_at_top: bool


NOWHERE = Place("", None, None, None, {}, is_at_top=False)


@dataclass
class Source:
    """The text of one cell or file, and the line at which its code objects say that it begins."""

    text: str
    first_line: int | None = None
    # For a part of a file: its first and last line. Lines are told as counted from the first.
    part: tuple[int, int] | None = None

    @cached_property
    def _lines(self) -> list[bytes]:
        # Bytes, because the columns of syntax nodes count bytes of UTF-8.
        return self.text.encode("utf-8", "replace").split(b"\n")

    @cached_property
    def offset(self) -> int:
        """How far the code's lines lie from the text's: a script's cells are compiled at their place in the file."""
        statements = self.tree.body if self.first_line is not None and self.tree is not None else []
        return (self.first_line or 0) - statements[0].lineno if statements else 0

    def holds(self, line: int) -> bool:
        """Whether a line, as code objects count it, lies in this text."""
        if self.part is not None:
            return self.part[0] <= line <= self.part[1]
        return 0 < line - self.offset <= len(self._lines)

    def told_line(self, line: int) -> int:
        """A line of the text as it is counted within its cell."""
        return line - self.part[0] + 1 if self.part is not None else line

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree, or None if the text does not parse or is too long to be worth it."""
        if len(self.text) > _LONGEST:
            return None
        try:
            return ast.parse(self.text)
        except SyntaxError:
            # A cell may use `await` outside a function.
            return _awaiting_tree(self.text)

    @cached_property
    def by_end(self) -> dict[tuple[int, int], list[tuple[ast.expr, ast.stmt, bool]]]:
        """Operations by where they end, with their statement and whether that is outside of any function."""
        found: dict[tuple[int, int], list[tuple[ast.expr, ast.stmt, bool]]] = {}
        for statement, is_at_top in _statements(self.tree):
            for node in _own_nodes(statement):
                if isinstance(node, _OPERATIONS):
                    found.setdefault((node.end_lineno or 0, node.end_col_offset or 0), []).append(
                        (node, statement, is_at_top)
                    )
        return found

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        lines = self._lines[first : last + 1]
        # The end first: on a single line, cutting the start would move it.
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"\n".join(lines).decode("utf-8", "replace")


def _awaiting_tree(text: str) -> ast.Module | None:
    try:
        tree = compile(text, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return None
    return tree if isinstance(tree, ast.Module) else None


def _statements(tree: ast.AST | None, *, is_at_top: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    for node in ast.iter_child_nodes(tree) if tree is not None else ():
        if isinstance(node, ast.stmt):
            yield node, is_at_top
        inner = is_at_top and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))
        if isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _statements(node, is_at_top=inner)


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement without those of the statements inside it."""
    waiting: list[ast.AST] = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))


class Position(NamedTuple):
    """Where an instruction stands, as its code object says."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int


_positions: dict[tuple[int, int], tuple[CodeType, Position | None]] = {}


def position_of(code: CodeType, instruction: int) -> Position | None:
    """Where an instruction stands; None if its code does not say."""
    # By identity, since hashing code hashes all of its constants; it is kept, so that no other takes its id.
    key = (id(code), instruction)
    known = _positions.get(key)
    if known is None:
        if len(_positions) >= _POSITIONS_KEPT:
            _positions.clear()
        known = _positions[key] = (code, _position(code, instruction))
    return known[1]


def _position(code: CodeType, instruction: int) -> Position | None:
    nowhere = (None, None, None, None)
    line, end_line, column, end_column = next(itertools.islice(code.co_positions(), instruction // 2, None), nowhere)
    if line is None or end_line is None:
        return None
    return Position(code.co_filename, line, end_line, column or 0, end_column or 0)


def first_line_of(code: CodeType) -> int | None:
    """The line of the first statement of a cell's code."""
    # Instructions that start a module or a coroutine have a line, but no width.
    return min((line for line, _, _, end_column in code.co_positions() if line and end_column), default=None)


class SourceMap:
    """The sources of a session, by the file names of their code objects."""

    def __init__(self) -> None:
        self._by_file: dict[str, list[Source]] = {}
        self._places: dict[Position, Place] = {}
        # Cells that nobody has asked for yet: in a kernel few ever do, and to place a cell it must be parsed.
        self._waiting: dict[tuple[str, str, int | None], None] = {}

    def add_cell(self, text: str, file: str, first_line: int | None) -> None:
        """Register a cell; in a script its code counts lines from the top of the file, in a kernel from its own."""
        key = (file, text, first_line)
        self._waiting.pop(key, None)
        self._waiting[key] = None

    def add_part(self, file: str, text: str, first: int, last: int) -> None:
        """Register lines of a file as a cell of their own, compiled with the file."""
        self._replace(file, Source(text, part=(first, last)))

    def place(self, position: Position | None) -> Place:
        """What stands at a position."""
        if position is None:
            return NOWHERE
        for file, text, first_line in self._waiting:
            self._replace(file, Source(text, first_line))
        self._waiting.clear()
        if position not in self._places:
            self._places[position] = self._find(position)
        return self._places[position]

    def _replace(self, file: str, source: Source) -> None:
        """Put a source in the place of the one that stood there, unless it is the same."""
        known = self._by_file.setdefault(file, [])
        if source in known:
            return
        known[:] = [one for one in known if one.part is not None or one.offset != source.offset] + [source]
        for position in [one for one in self._places if one.file == file]:
            del self._places[position]

    def _find(self, position: Position) -> Place:
        source = self._source(position.file, position.line)
        if source is None:
            return Place("", position.line, position.end_line, None, {}, is_at_top=False)
        shifted = (position.line - source.offset, position.end_line - source.offset)
        return _placed(source, *shifted, position.column, position.end_column)

    def _source(self, file: str, line: int) -> Source | None:
        for source in self._by_file.get(file, ()):
            if source.holds(line):
                return source
        text = "".join(linecache.getlines(file))
        if not text:
            return None
        source = Source(text)
        self._by_file.setdefault(file, []).append(source)
        return source


def _placed(source: Source, line: int, end_line: int, column: int, end_column: int) -> Place:
    start = (line, column)
    fitting = [
        (node, statement, is_at_top)
        for node, statement, is_at_top in source.by_end.get((end_line, end_column), ())
        if (node.lineno, node.col_offset) <= start
    ]
    if not fitting:
        return Place("", line, end_line, None, {}, is_at_top=False)
    node, statement, is_at_top = max(fitting, key=lambda one: (one[0].lineno, one[0].col_offset))
    told: ast.expr | ast.stmt = statement if _is_stored(node, statement) else node
    return Place(
        source.segment(told),
        source.told_line(told.lineno),
        source.told_line(told.end_lineno or told.lineno),
        _target(node, statement),
        _parameters(source, node),
        is_at_top,
    )


def _is_stored(node: ast.expr, statement: ast.stmt) -> bool:
    """Whether the node is what a statement assigns to or deletes: then the whole statement is the operation."""
    return isinstance(statement, ast.AugAssign) or isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))


def _target(node: ast.expr, statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign):
        return next(
            (name for target in statement.targets for name in [_name_given(target, statement.value, node)] if name),
            None,
        )
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return _name_given(statement.target, statement.value, node)
    for inner in _own_nodes(statement):
        if isinstance(inner, ast.NamedExpr) and inner.value is node:
            return inner.target.id
    return None


def _name_given(target: ast.expr, value: ast.expr, node: ast.expr) -> str | None:
    if isinstance(target, ast.Name):
        return target.id if value is node or (isinstance(value, ast.Await) and value.value is node) else None
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = zip(target.elts, value.elts, strict=True)
        return next((found for one, other in pairs if (found := _name_given(one, other, node))), None)
    return None


def _parameters(source: Source, node: ast.expr) -> dict[str, Any]:
    """Names and literals of the call, as they stand in the code: never data."""
    if isinstance(node, ast.Subscript):
        return {"key": source.segment(node.slice)}
    if not isinstance(node, ast.Call):
        return {}
    positional = [_literal(source, argument) for argument in node.args]
    named = {keyword.arg: _literal(source, keyword.value) for keyword in node.keywords if keyword.arg}
    return {**({"args": positional} if positional else {}), **named}


def _literal(source: Source, node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return source.segment(node)
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else repr(value)
