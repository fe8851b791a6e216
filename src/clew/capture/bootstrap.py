"""Run an unmodified script or module under capture: `python -m clew.capture.bootstrap notebook.py` or `-m marimo …`."""

from __future__ import annotations

import functools
import runpy
import sys
from pathlib import Path
from types import TracebackType

from clew.capture.environments.script import run_script
from clew.capture.tracking import track


def main(arguments: list[str]) -> None:
    """Run a script or a module (`-m`) as Python does."""
    track()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        script = Path(arguments[0]).absolute()
        sys.argv = arguments
        sys.path[0] = str(script.resolve().parent)
        sys.excepthook = functools.partial(_show_error, str(script))
        run_script(str(script))


def _show_error(script: str, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback that starts at the script's frame, as Python does."""
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    main(sys.argv[1:])
