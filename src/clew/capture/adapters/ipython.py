"""IPython and Jupyter: cells are seen through the shell's own events."""

from __future__ import annotations

import functools
import sys
from contextlib import ExitStack
from types import CodeType, FrameType
from typing import Any

from clew.capture.adapters.cells import open_session, running
from clew.capture.imports import when_imported
from clew.capture.losses import count_loss
from clew.capture.sessions import Cell, Execution, Session
from clew.capture.tracking import is_tracking

_SHELL = "IPython.core.interactiveshell"
_MARK = "_clew_cells"


def watch() -> None:
    """Attach to the running shell, or to each one that is made later."""
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
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands in for the method
        original(self, *args, **kwargs)
        attach(self)

    setattr(__init__, _MARK, True)
    shell_class.__init__ = __init__


def attach(shell: Any) -> None:
    """See the cells of one shell, from now on and while capture is on."""
    if not hasattr(shell, _MARK):
        cells = ShellCells(shell)
        setattr(shell, _MARK, cells)
        shell.events.register("pre_run_cell", cells.started)
        shell.events.register("post_run_cell", cells.ended)


class ShellCells:
    """The cells of one shell, one session for its whole life."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._session: Session | None = None
        # By what the shell knows each execution by: cells run within cells, and in threads beside each other.
        self._open: dict[int, tuple[ExitStack, Execution]] = {}

    def started(self, info: Any) -> None:
        """A cell is about to run."""
        if not is_tracking():
            return
        try:
            self._session = self._session or open_session(self._notebook())
            number = self._number()
            source, code = self._compiled(info, number)
            cell = Cell(id=str(getattr(info, "cell_id", None) or f"In[{number}]"), source=source, index=number)
            stack = ExitStack()
            execution = stack.enter_context(running(self._session, cell, code, self._shell.user_ns))
            self._open[id(info)] = (stack, execution)
        except Exception as error:  # noqa: BLE001 - the cell must run on whatever happens to its events
            count_loss("IPython", error)

    def ended(self, result: Any) -> None:
        """A cell has run."""
        stack, execution = self._open.pop(id(result.info), (None, None))
        if stack is None or execution is None:
            return
        if not result.success:
            execution.error = result.error_before_exec or result.error_in_exec
        stack.close()

    def _compiled(self, info: Any, number: int) -> tuple[str, CodeType]:
        """What becomes of a cell, since magics are not Python, and code with the name of the file it is compiled as."""
        shell, raw = self._shell, info.raw_cell or ""
        try:
            source = getattr(info, "transformed_cell", None) or shell.transform_cell(raw)
        except Exception:  # noqa: BLE001 - the shell will tell the user of it
            source = raw
        named = getattr(shell.compile, "get_code_name", None)
        return source, compile("", named(raw, source, number) if named is not None else "<cell>", "exec")

    def _number(self) -> int:
        """The number of the cell that is about to run: newer shells count before they tell of it, older ones after."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "run_cell_async":
            frame = frame.f_back
        known = frame.f_locals.get("execution_count") if frame is not None else None
        return known if isinstance(known, int) else getattr(self._shell, "execution_count", 0)

    def _notebook(self) -> str | None:
        given = self._shell.user_ns.get("__session__") or self._shell.user_ns.get("__vsc_ipynb_file__")
        return str(given) if given else None
