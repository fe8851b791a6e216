"""IPython and Jupyter: cells are seen through the shell's own events."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

from clew.capture.adapters.cells import open_session, running
from clew.capture.imports import when_imported
from clew.capture.losses import count_loss
from clew.capture.sessions import Cell, Execution, Session

_SHELL = "IPython.core.interactiveshell"


def watch() -> None:
    """Attach to the running shell, or to each one that is made later."""
    when_imported(_SHELL, _attach)


def _attach() -> None:
    shell_class = sys.modules[_SHELL].InteractiveShell
    if shell_class.initialized():
        attach(shell_class.instance())
        return
    original = shell_class.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands in for the method
        original(self, *args, **kwargs)
        attach(self)

    shell_class.__init__ = __init__


def attach(shell: Any) -> ShellCells:
    """See the cells of one shell."""
    cells = ShellCells(shell)
    shell.events.register("pre_run_cell", cells.started)
    shell.events.register("post_run_cell", cells.ended)
    return cells


class ShellCells:
    """The cells of one shell, one session for its whole life."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._session: Session | None = None
        self._open: ExitStack | None = None
        self._execution: Execution | None = None

    def started(self, info: Any) -> None:
        """A cell is about to run."""
        try:
            self._session = self._session or open_session(self._notebook())
            # The magics are not Python: what they were turned into is.
            source = self._shell.transform_cell(info.raw_cell or "")
            number = getattr(self._shell, "execution_count", 0)
            cell = Cell(id=str(getattr(info, "cell_id", None) or f"In[{number}]"), source=source, index=number)
            self._open = ExitStack()
            self._execution = self._open.enter_context(
                running(self._session, cell, _named(self._shell, source, number), self._shell.user_ns)
            )
        except Exception as error:  # noqa: BLE001 - the cell must run on whatever happens to its events
            count_loss("IPython", error)

    def ended(self, result: Any) -> None:
        """A cell has run."""
        if self._open is None:
            return
        if self._execution is not None and not result.success:
            self._execution.error = result.error_before_exec or result.error_in_exec
        self._open.close()
        self._open = self._execution = None

    def _notebook(self) -> str | None:
        given = self._shell.user_ns.get("__session__") or self._shell.user_ns.get("__vsc_ipynb_file__")
        return str(given) if given else None


def _named(shell: Any, source: str, number: int) -> Any:
    """A code object with the file name under which the shell will compile this cell."""
    name = shell.compile.get_code_name(source, source, number) if hasattr(shell.compile, "get_code_name") else "<cell>"
    return compile("", name, "exec")
