"""IPython and Jupyter: cells are observed through the shell's events."""

from __future__ import annotations

import functools
import sys
from contextlib import ExitStack
from types import CodeType, FrameType
from typing import Any

from clew.capture.diagnostics import record_error
from clew.capture.environments.cell_runner import execution_context, open_session
from clew.capture.environments.session import Cell, Execution, Session
from clew.capture.tracking import is_tracking, when_imported

_SHELL = "IPython.core.interactiveshell"
_MARK = "_clew_cells"


def install() -> None:
    """Attach to the running shell, or to each one created later."""
    when_imported(_SHELL, _attach)


def _attach() -> None:
    shell_class = sys.modules[_SHELL].InteractiveShell
    if shell_class.initialized():
        attach(shell_class.instance())
        return
    original = shell_class.__init__
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - replaces the method
        original(self, *args, **kwargs)
        attach(self)

    setattr(__init__, _MARK, True)
    shell_class.__init__ = __init__


def attach(shell: Any) -> None:
    """Register event handlers with a shell."""
    if not hasattr(shell, _MARK):
        hooks = IPythonHooks(shell)
        setattr(shell, _MARK, hooks)
        shell.events.register("pre_run_cell", hooks.pre_run_cell)
        shell.events.register("post_run_cell", hooks.post_run_cell)


class IPythonHooks:
    """Event handlers of one shell, with one session for its lifetime."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._session: Session | None = None
        # Keyed by id(info) of the shell: cells may be nested or run in parallel threads.
        self._open: dict[int, tuple[ExitStack, Execution]] = {}

    def pre_run_cell(self, info: Any) -> None:
        """Open the execution of a cell."""
        if not is_tracking():
            return
        try:
            self._session = self._session or open_session(self._notebook_path())
            number = self._cell_number()
            source, code = self._transformed_cell(info, number)
            cell = Cell(id=str(getattr(info, "cell_id", None) or f"In[{number}]"), source=source, index=number)
            stack = ExitStack()
            execution = stack.enter_context(execution_context(self._session, cell, code, self._shell.user_ns))
            self._open[id(info)] = (stack, execution)
        except Exception as error:  # noqa: BLE001 - the cell must run if recording fails
            record_error("IPython", error)

    def post_run_cell(self, result: Any) -> None:
        """Close the execution of a cell."""
        stack, execution = self._open.pop(id(result.info), (None, None))
        if stack is None or execution is None:
            return
        if not result.success:
            execution.error = result.error_before_exec or result.error_in_exec
        stack.close()

    def _transformed_cell(self, info: Any, number: int) -> tuple[str, CodeType]:
        """Return the cell's source with magics transformed, and code with the file name it will be compiled under."""
        shell, raw = self._shell, info.raw_cell or ""
        try:
            source = getattr(info, "transformed_cell", None) or shell.transform_cell(raw)
        except Exception:  # noqa: BLE001 - the shell will report it
            source = raw
        get_code_name = getattr(shell.compile, "get_code_name", None)
        return source, compile(
            "", get_code_name(raw, source, number) if get_code_name is not None else "<cell>", "exec"
        )

    def _cell_number(self) -> int:
        """Return the number of the cell about to run: newer shells increment it before the event, older ones after."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "run_cell_async":
            frame = frame.f_back
        count = frame.f_locals.get("execution_count") if frame is not None else None
        return count if isinstance(count, int) else getattr(self._shell, "execution_count", 0)

    def _notebook_path(self) -> str | None:
        path = self._shell.user_ns.get("__session__") or self._shell.user_ns.get("__vsc_ipynb_file__")
        return str(path) if path else None
