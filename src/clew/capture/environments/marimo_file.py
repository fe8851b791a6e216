"""Parser of marimo notebook files: cells in order, with names and fingerprints."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

SETUP = "setup"
_CELL_DECORATORS = ("cell", "function", "class_definition")


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """One cell of a notebook file."""

    index: int
    name: str | None
    fingerprint: str


@dataclass(frozen=True)
class Notebook:
    """Cells of a notebook, identified by their syntax trees, independent of formatting."""

    cells: tuple[NotebookCell, ...]
    # First and last line of the setup cell's body.
    setup_lines: tuple[int, int] | None = None

    @classmethod
    def read(cls, path: Path) -> Notebook | None:
        """Parse a file; return None if it is not a marimo notebook."""
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            return None
        return cls.from_tree(tree)

    @classmethod
    def from_tree(cls, tree: ast.Module) -> Notebook | None:
        """Parse a module's syntax tree; return None if it is not a marimo notebook."""
        app = next((name for node in tree.body for name in [_app_name(node)] if name), None)
        if app is None:
            return None
        cells_found = [cell for node in tree.body for cell in [_parse_cell(node, app)] if cell is not None]
        cells = tuple(NotebookCell(index, name, print_) for index, (name, print_) in enumerate(cells_found, start=1))
        return cls(cells, next((lines for node in tree.body if (lines := _setup_lines(node, app))), None))

    def find(self, source: str) -> NotebookCell | None:
        """Return the cell with this source."""
        fingerprint = source_fingerprint(source)
        return next((cell for cell in self.cells if cell.fingerprint == fingerprint), None)


def _app_name(node: ast.stmt) -> str | None:
    """Return `app` of `app = marimo.App(...)`."""
    if (
        not isinstance(node, ast.Assign)
        or not isinstance(node.value, ast.Call)
        or not isinstance(node.targets[0], ast.Name)
    ):
        return None
    function = node.value.func
    called = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    return node.targets[0].id if called == "App" else None


def _setup_lines(node: ast.stmt, app: str) -> tuple[int, int] | None:
    if isinstance(node, ast.With) and any(_is_member(item.context_expr, app, (SETUP,)) for item in node.items):
        return node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno
    return None


def _parse_cell(node: ast.stmt, app: str) -> tuple[str | None, str] | None:
    if isinstance(node, ast.With) and _setup_lines(node, app) is not None:
        return SETUP, _fingerprint(node.body)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        decorator = next((item for item in node.decorator_list if _is_member(item, app, _CELL_DECORATORS)), None)
        if decorator is not None:
            return _parse_decorated(node, decorator)
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and _is_member(node.value, app, ("_unparsable_cell",))
    ):
        return None, ""
    return None


def _parse_decorated(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, decorator: ast.expr
) -> tuple[str | None, str]:
    attribute = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(attribute, ast.Attribute) and attribute.attr != "cell":
        # A top-level function or class is the whole cell, without its decorator.
        node.decorator_list = [item for item in node.decorator_list if item is not decorator]
        return node.name, _fingerprint([node])
    body = node.body[:-1] if isinstance(node.body[-1], ast.Return) else node.body
    return None if node.name == "_" else node.name, _fingerprint(body)


def _is_member(node: ast.expr, app: str, names: tuple[str, ...]) -> bool:
    target = node.func if isinstance(node, ast.Call) else node
    return (
        isinstance(target, ast.Attribute)
        and target.attr in names
        and isinstance(target.value, ast.Name)
        and target.value.id == app
    )


def _fingerprint(body: list[ast.stmt]) -> str:
    statements = [node for node in body if not isinstance(node, ast.Pass)]
    return "\n".join(ast.dump(_normalize_strings(node)) for node in statements)


def _normalize_strings(statement: ast.stmt) -> ast.stmt:
    """Strip indentation in multi-line strings: a cell's code has lost that of the function around it."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
            node.value = "\n".join(line.strip() for line in node.value.splitlines())
    return statement


def source_fingerprint(source: str) -> str:
    """Return the fingerprint of a cell's source, independent of formatting."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = compile(source, "<cell>", "exec", flags)
    except (SyntaxError, ValueError):
        return source
    return _fingerprint(tree.body)
