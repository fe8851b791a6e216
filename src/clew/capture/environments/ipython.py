"""IPython and Jupyter: cells are observed through the shell's events; runner of .ipynb files."""

from __future__ import annotations

import functools
import os
import sys
from contextlib import ExitStack
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from clew.capture.diagnostics import record_error
from clew.capture.environments.cell_runner import execution_context, open_session
from clew.capture.environments.session import Cell, Execution, Session
from clew.capture.tracking import is_tracking, when_imported

_SHELL = "IPython.core.interactiveshell"
_MARK = "_clew_cells"
# Path of the notebook that a kernel was started for: the protocol of Jupyter does not transmit it.
NOTEBOOK_VARIABLE = "CLEW_NOTEBOOK"


def install() -> None:
    """Attach to the running shell, or to each one created later; pass the paths of notebooks to kernels."""
    when_imported(_SHELL, _attach)
    when_imported("nbclient.client", _wrap_kernel_start)
    when_imported("nbclient.cli", _wrap_notebook_run)


_executed_path: ContextVar[str | None] = ContextVar("clew_executed_path", default=None)


def _wrap_kernel_start() -> None:
    """Wrap the start of kernels by nbclient, which nbconvert and papermill use."""
    client = sys.modules["nbclient.client"].NotebookClient
    for name in ("start_new_kernel", "async_start_new_kernel"):
        setattr(client, name, _with_notebook_path(getattr(client, name)))


def _with_notebook_path(start: Any) -> Any:
    @functools.wraps(start)
    def start_kernel(self: Any, **kwargs: Any) -> Any:
        try:
            path = _executed_path.get() or _path_of_client(self)
            if path is not None:
                kwargs["env"] = {**(kwargs.get("env") or os.environ), NOTEBOOK_VARIABLE: path}
        except Exception as error:  # noqa: BLE001 - the kernel must start
            record_error("nbclient", error)
        return start(self, **kwargs)

    return start_kernel


def _path_of_client(client: Any) -> str | None:
    """Return the path of the notebook as papermill or nbconvert stores it; None for one that is no local file."""
    metadata = client.resources.get("metadata") or {}
    path = (client.nb.metadata.get("papermill") or {}).get("input_path")
    if path is None and metadata.get("name"):
        path = Path(metadata.get("path") or "", f"{metadata['name']}.ipynb")
    return str(Path(path).absolute()) if path is not None and Path(path).is_file() else None


def _wrap_notebook_run() -> None:
    """Wrap the function of `jupyter execute` that runs one notebook."""
    app = sys.modules["nbclient.cli"].NbClientApp
    original = app.run_notebook

    @functools.wraps(original)
    def run_notebook(self: Any, notebook_path: str) -> Any:
        token = _executed_path.set(str(Path(notebook_path).with_suffix(".ipynb").absolute()))
        try:
            return original(self, notebook_path)
        finally:
            _executed_path.reset(token)

    app.run_notebook = run_notebook


def run_ipynb(path: str) -> int:
    """Run the cells of a Jupyter notebook in a kernel, print their output, and return the exit code."""
    import nbformat
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    class Client(NotebookClient):
        """Prints the output of cells as it arrives."""

        def output(self, outs: Any, msg: Any, display_id: Any, cell_index: int) -> Any:
            content = msg["content"]
            if msg["msg_type"] == "stream":
                getattr(sys, content["name"]).write(content["text"])
            elif msg["msg_type"] in ("execute_result", "display_data"):
                sys.stdout.write(f"{content['data'].get('text/plain', '')}\n")
            elif msg["msg_type"] == "error":
                sys.stderr.write("".join(f"{line}\n" for line in content["traceback"]))
            sys.stdout.flush()
            return super().output(outs, msg, display_id, cell_index)

    file = Path(path)
    try:
        notebook = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001 - nbformat raises many types
        sys.stderr.write(f"clew: {path} is not a Jupyter notebook: {error}\n")
        return 1
    kernel = notebook.metadata.get("kernelspec", {}).get("name", "python3")
    try:
        KernelSpecManager().get_kernel_spec(kernel)
    except NoSuchKernel:
        sys.stderr.write(f"clew: there is no kernel {kernel!r} here; {path} runs with this Python\n")
        kernel = "python3"
    resources = {"metadata": {"path": str(file.parent), "name": file.stem}}
    try:
        Client(notebook, kernel_name=kernel, resources=resources, timeout=None).execute()
    except CellExecutionError:
        return 1
    return 0


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
        variables = self._shell.user_ns
        # The first one is of this kernel; a kernel that a notebook starts inherits the others.
        path = os.environ.get(NOTEBOOK_VARIABLE) or variables.get("__session__") or variables.get("__vsc_ipynb_file__")
        return str(Path(path).absolute()) if path else None
