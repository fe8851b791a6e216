"""Plain scripts: the whole module is one execution."""

from __future__ import annotations

import atexit
import builtins
import sys
from contextlib import ExitStack
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from clew.capture.environments import marimo
from clew.capture.environments.cell_runner import execution_context, open_session
from clew.capture.environments.marimo import Notebook
from clew.capture.environments.session import Cell, Session
from clew.capture.tracking import is_tracking


def run_script(path: str) -> None:
    """Run a file as `__main__`; a marimo notebook is captured cell by cell, anything else as a whole."""
    file = Path(path)
    source = file.read_bytes()
    code = compile(source, path, "exec", dont_inherit=True)
    module = _main_module(path)
    notebook = Notebook.read(file) if is_tracking() else None
    if notebook is not None and notebook.setup_lines is not None:
        with marimo.setup_cell(file, notebook.setup_lines, vars(module)):
            exec(code, vars(module))  # noqa: S102 - runs the user's script
    elif notebook is not None or not is_tracking():
        exec(code, vars(module))  # noqa: S102
    else:
        _run_captured(file, source.decode("utf-8", "replace"), code, vars(module))


def start_script_execution(namespace: dict[str, Any]) -> None:
    """Record one execution from here to the end of the process, for a script that calls `clew.track()` itself."""
    path = namespace.get("__file__")
    if not isinstance(path, str) or not Path(path).is_file():
        # An interactive interpreter, or `python -c`.
        return
    session, cell = _open_script(Path(path), Path(path).read_text(encoding="utf-8", errors="replace"))
    stack = ExitStack()
    execution = stack.enter_context(execution_context(session, cell, None, namespace))

    def end_execution() -> None:
        execution.error = getattr(sys, "last_value", None)
        stack.close()

    # atexit handlers run last in, first out: this one runs before the one that ends the session.
    atexit.register(end_execution)


def _open_script(file: Path, source: str) -> tuple[Session, Cell]:
    session = open_session(str(file.absolute()))
    session.is_script = True
    return session, Cell(id=file.stem, source=source, name=file.stem, index=1)


def _main_module(path: str) -> ModuleType:
    module = ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__builtins__"] = builtins
    module.__dict__["__cached__"] = None
    sys.modules["__main__"] = module
    return module


def _run_captured(file: Path, source: str, code: CodeType, namespace: dict[str, Any]) -> None:
    session, cell = _open_script(file, source)
    try:
        with execution_context(session, cell, code, namespace) as execution:
            try:
                exec(code, namespace)  # noqa: S102
            except BaseException as error:
                if not (isinstance(error, SystemExit) and error.code in (None, 0)):
                    execution.error = error
                raise
    finally:
        session.end()
