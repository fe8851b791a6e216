"""marimo: cells are seen by wrapping the executor that runs them in every mode.

There is no public hook. `DefaultExecutor.execute_cell` and its async twin have kept their names from 0.9 to 0.25,
in `marimo._runtime.executor` and since 0.23.9 in `marimo._runtime.executor.executor`; further arguments came and went.
"""

from __future__ import annotations

import functools
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from clew.capture.adapters.cells import open_session, running
from clew.capture.imports import when_imported
from clew.capture.losses import count_loss, notice_once
from clew.capture.notebooks import SETUP, Notebook
from clew.capture.sessions import Cell, Execution, Session

MODULES = ("marimo._runtime.executor", "marimo._runtime.executor.executor")
_MARK = "_clew_wrapped"


def watch() -> None:
    """Wrap the executor as soon as marimo has been imported."""
    for module in MODULES:
        when_imported(module, functools.partial(_wrap_executor, module))


def _wrap_executor(module: str) -> None:
    executor = getattr(sys.modules.get(module), "DefaultExecutor", None)
    if executor is None:
        if module == MODULES[0] and not hasattr(sys.modules.get(module), "__path__"):
            notice_once(
                "this release of marimo runs its cells in a way that clew does not know; cells are not captured"
            )
        return
    if not getattr(executor, _MARK, False):
        setattr(executor, _MARK, True)
        _wrap(executor)


def _wrap(executor: Any) -> None:
    execute, execute_async = executor.execute_cell, executor.execute_cell_async

    @functools.wraps(execute)
    def execute_cell(self: Any, cell: Any, namespace: dict[str, Any], *rest: Any) -> Any:
        described = _described(cell)
        if described is None:
            return execute(self, cell, namespace, *rest)
        with running(*described, _code(cell), namespace) as execution:
            try:
                return execute(self, cell, namespace, *rest)
            except BaseException as error:
                _note(execution, error)
                raise

    @functools.wraps(execute_async)
    async def execute_cell_async(self: Any, cell: Any, namespace: dict[str, Any], *rest: Any) -> Any:
        described = _described(cell)
        if described is None:
            return await execute_async(self, cell, namespace, *rest)
        with running(*described, _code(cell), namespace) as execution:
            try:
                return await execute_async(self, cell, namespace, *rest)
            except BaseException as error:
                _note(execution, error)
                raise

    executor.execute_cell = execute_cell
    executor.execute_cell_async = execute_cell_async


_setups: dict[str, tuple[Session, ExitStack]] = {}


@contextmanager
def setup_cell(file: Path, lines: tuple[int, int], namespace: dict[str, Any]) -> Iterator[None]:
    """`python notebook.py` runs the setup cell as code of the module: what happens up to its end belongs to it."""
    text = file.read_text(encoding="utf-8")
    path, first, last = str(file.absolute()), *lines
    source = textwrap.dedent("\n".join(text.splitlines()[first - 1 : last]))
    session = open_session(path)
    session.sink.part_found(session, str(file), text, lines)
    with ExitStack() as stack:
        cell = Cell(id=SETUP, source=source, name=SETUP, index=1)
        execution = stack.enter_context(running(session, cell, None, namespace))
        _setups[path] = (session, stack)
        when_imported("marimo._ast.app", _watch_end_of_setup)
        try:
            yield
        except BaseException as error:
            execution.error = execution.error or error
            raise


def _watch_end_of_setup() -> None:
    # Only the end is wrapped: the beginning looks at the frame that called it.
    context = getattr(sys.modules["marimo._ast.app"], "_SetupContext", None)
    if context is None or hasattr(context, _MARK):
        return
    original = context.__exit__

    @functools.wraps(original)
    def __exit__(self: Any, *raised: Any) -> Any:  # noqa: N807 - stands in for the method
        for _, stack in list(_setups.values()):
            if raised[0] is None:
                stack.close()
        return original(self, *raised)

    setattr(context, _MARK, True)
    context.__exit__ = __exit__


def _note(execution: Execution, error: BaseException) -> None:
    """marimo wraps what a cell raised; `mo.stop` comes the same way and is no error."""
    cause = (
        error.__cause__ if type(error).__name__ == "MarimoRuntimeException" and error.__cause__ is not None else error
    )
    if type(cause).__name__ == "MarimoStopError":
        execution.is_stopped = True
    else:
        execution.error = cause


def _code(cell: Any) -> Any:
    return getattr(cell, "body", None)


def _described(cell: Any) -> tuple[Session, Cell] | None:
    """The session and the cell, or None if marimo's internals are not as we know them."""
    try:
        session = _session_of(_context())
        return session, _cell(session, cell)
    except Exception as error:  # noqa: BLE001 - internals that moved must not break a notebook
        count_loss("marimo", error)
        notice_once(f"cells of this release of marimo are unknown to clew ({type(error).__name__}): not captured")
        return None


def is_running() -> bool:
    """Whether this is a cell of a marimo notebook."""
    return "marimo._runtime.context" in sys.modules and _context() is not None


def _context() -> Any:
    from marimo._runtime.context import safe_get_context

    return safe_get_context()


_without_context: dict[str, Session] = {}


def _session_of(context: Any) -> Session:
    """One session per kernel: several kernels may run as threads of one process."""
    if context is None:
        return (
            _without_context.setdefault("", open_session(None)) if "" not in _without_context else _without_context[""]
        )
    session: Session | None = getattr(context, "_clew_session", None)
    if session is None:
        path = _filename(context)
        begun = _setups.pop(path, None) if path is not None else None
        session = context._clew_session = begun[0] if begun is not None else open_session(path)
    return session


def _filename(context: Any) -> str | None:
    name = context.filename
    return str(Path(name).absolute()) if name else None


def _cell(session: Session, cell: Any) -> Cell:
    known = _notebook_of(session).find(cell.code) if session.path is not None else None
    return Cell(
        id=str(cell.cell_id),
        source=cell.code,
        name=known.name if known is not None else None,
        index=known.index if known is not None else None,
        defines=frozenset(cell.defs),
    )


_notebooks: dict[tuple[str, int], Notebook] = {}


def _notebook_of(session: Session) -> Notebook:
    """The notebook's file, read again when it was saved."""
    path = session.path or Path()
    try:
        key = (str(path), path.stat().st_mtime_ns)
    except OSError:
        return Notebook(())
    if key not in _notebooks:
        _notebooks[key] = Notebook.read(path) or Notebook(())
    return _notebooks[key]
