"""marimo: cells are observed by wrapping the executor that runs them in every mode; parser of notebook files.

There is no public hook. `DefaultExecutor.execute_cell` and its async variant have the same names from 0.9 to 0.25,
in `marimo._runtime.executor` and since 0.23.9 in `marimo._runtime.executor.executor`; further arguments vary.
"""

from __future__ import annotations

import ast
import functools
import sys
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew.capture.diagnostics import record_error, warn_once
from clew.capture.environments.cell_runner import execution_context, open_session
from clew.capture.environments.session import Cell, Execution, Session
from clew.capture.introspection.source_map import start_of
from clew.capture.introspection.user_code import strip_frame
from clew.capture.tracking import when_imported

MODULES = ("marimo._runtime.executor", "marimo._runtime.executor.executor")
_MARK = "_clew_wrapped"
_SETUP = "setup"
_CELL_DECORATORS = ("cell", "function", "class_definition")


def install() -> None:
    """Wrap the executor once marimo has been imported."""
    for module in MODULES:
        when_imported(module, functools.partial(_wrap_executor, module))


def _wrap_executor(module: str) -> None:
    executor = getattr(sys.modules.get(module), "DefaultExecutor", None)
    if executor is None:
        if module == MODULES[0] and not hasattr(sys.modules.get(module), "__path__"):
            warn_once("this marimo version is not supported (no DefaultExecutor); cells are not captured")
        return
    if not getattr(executor, _MARK, False):
        setattr(executor, _MARK, True)
        _wrap(executor)


def _wrap(executor: Any) -> None:
    execute, execute_async = executor.execute_cell, executor.execute_cell_async

    @functools.wraps(execute)
    def execute_cell(self: Any, cell: Any, namespace: dict[str, Any], *rest: Any) -> Any:
        session_and_cell = _session_and_cell(cell)
        context = nullcontext() if session_and_cell is None else _cell_context(session_and_cell, cell, namespace)
        with context as execution:
            try:
                return execute(self, cell, namespace, *rest)
            except BaseException as error:
                strip_frame(error)
                _record_exception(execution, error)
                raise

    @functools.wraps(execute_async)
    async def execute_cell_async(self: Any, cell: Any, namespace: dict[str, Any], *rest: Any) -> Any:
        session_and_cell = _session_and_cell(cell)
        context = nullcontext() if session_and_cell is None else _cell_context(session_and_cell, cell, namespace)
        with context as execution:
            try:
                return await execute_async(self, cell, namespace, *rest)
            except BaseException as error:
                strip_frame(error)
                _record_exception(execution, error)
                raise

    executor.execute_cell = execute_cell
    executor.execute_cell_async = execute_cell_async


def _cell_context(
    session_and_cell: tuple[Session, Cell], cell: Any, namespace: dict[str, Any]
) -> AbstractContextManager[Execution]:
    return execution_context(*session_and_cell, _code(cell), namespace)


_open_setups: dict[str, tuple[Session, ExitStack]] = {}


@contextmanager
def setup_cell(file: Path, lines: tuple[int, int], namespace: dict[str, Any]) -> Iterator[None]:
    """Record the setup cell, which `python notebook.py` runs as module code, up to its end."""
    text = file.read_text(encoding="utf-8")
    path, first, last = str(file.absolute()), *lines
    source = textwrap.dedent("\n".join(text.splitlines()[first - 1 : last]))
    session = open_session(path)
    session.recorder.setup_cell_found(session, str(file), text, lines)
    with ExitStack() as stack:
        cell = Cell(id=_SETUP, source=source, name=_SETUP, index=1)
        execution = stack.enter_context(execution_context(session, cell, None, namespace))
        _open_setups[path] = (session, stack)
        when_imported("marimo._ast.app", _patch_setup_exit)
        try:
            yield
        except BaseException as error:
            execution.error = execution.error or error
            raise


def _patch_setup_exit() -> None:
    # Only __exit__ is wrapped: __enter__ inspects its caller's frame.
    context = getattr(sys.modules["marimo._ast.app"], "_SetupContext", None)
    if context is None or hasattr(context, _MARK):
        return
    original = context.__exit__

    @functools.wraps(original)
    def __exit__(self: Any, *exc_info: Any) -> Any:  # noqa: N807 - replaces the method
        for _, stack in list(_open_setups.values()):
            if exc_info[0] is None:
                stack.close()
        return original(self, *exc_info)

    setattr(context, _MARK, True)
    context.__exit__ = __exit__


def _record_exception(execution: Execution | None, error: BaseException) -> None:
    """Record the exception of a cell: unwrap marimo's wrapper; `mo.stop` is not an error."""
    if execution is None:
        return
    cause = (
        error.__cause__ if type(error).__name__ == "MarimoRuntimeException" and error.__cause__ is not None else error
    )
    if type(cause).__name__ == "MarimoStopError":
        execution.is_stopped = True
    else:
        execution.error = cause


def _code(cell: Any) -> Any:
    """Return the code of a cell's statements, or of its last expression, which is compiled separately."""
    body, last_expression = getattr(cell, "body", None), getattr(cell, "last_expr", None)
    return last_expression if body is None or start_of(body) is None else body


def _session_and_cell(cell: Any) -> tuple[Session, Cell] | None:
    """Return session and cell, or None if marimo's internals have changed."""
    try:
        session = _session_of(_context())
        return session, _to_cell(session, cell)
    except Exception as error:  # noqa: BLE001 - changed internals must not break a notebook
        record_error("marimo", error)
        warn_once(f"this marimo version is not supported ({type(error).__name__}); cells are not captured")
        return None


def is_running() -> bool:
    """Return whether a marimo cell is running."""
    return "marimo._runtime.context" in sys.modules and _context() is not None


def _context() -> Any:
    from marimo._runtime.context import safe_get_context

    return safe_get_context()


_contextless_sessions: dict[str, Session] = {}


def _session_of(context: Any) -> Session:
    """Return the session of a kernel: several kernels may run as threads of one process."""
    if context is None:
        return (
            _contextless_sessions.setdefault("", open_session(None))
            if "" not in _contextless_sessions
            else _contextless_sessions[""]
        )
    session: Session | None = getattr(context, "_clew_session", None)
    if session is None:
        path = _filename(context)
        setup = _open_setups.pop(path, None) if path is not None else None
        session = context._clew_session = setup[0] if setup is not None else open_session(path)
    return session


def _filename(context: Any) -> str | None:
    name = context.filename
    return str(Path(name).absolute()) if name else None


def _to_cell(session: Session, cell: Any) -> Cell:
    notebook_cell = _notebook_of(session).find(cell.code) if session.path is not None else None
    return Cell(
        id=str(cell.cell_id),
        source=cell.code,
        name=notebook_cell.name if notebook_cell is not None else None,
        index=notebook_cell.index if notebook_cell is not None else None,
        defines=frozenset(cell.defs),
    )


_notebooks: dict[tuple[str, int], Notebook] = {}


def _notebook_of(session: Session) -> Notebook:
    """Return the parsed notebook file, read again after a change."""
    path = session.path or Path()
    try:
        key = (str(path), path.stat().st_mtime_ns)
    except OSError:
        return Notebook(())
    if key not in _notebooks:
        _notebooks[key] = Notebook.read(path) or Notebook(())
    return _notebooks[key]


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
    if isinstance(node, ast.With) and any(_is_member(item.context_expr, app, (_SETUP,)) for item in node.items):
        return node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno
    return None


def _parse_cell(node: ast.stmt, app: str) -> tuple[str | None, str] | None:
    if isinstance(node, ast.With) and _setup_lines(node, app) is not None:
        return _SETUP, _fingerprint(node.body)
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
