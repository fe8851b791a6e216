"""Run an unmodified script or module under capture: `python -m clew.capture.bootstrap notebook.py` or `-m marimo …`."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from types import TracebackType

from clew.capture.environments.ipython import run_ipynb
from clew.capture.environments.script import run_script
from clew.capture.tracking import track

# Files between the interpreter and the user's code.
_OWN_FILES = (__file__, run_script.__code__.co_filename, runpy.__file__, "<frozen runpy>")


def main(arguments: list[str]) -> None:
    """Run a script or a module (`-m`) as Python does."""
    track()
    try:
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            sys.path[0] = str(Path.cwd())
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        elif arguments[0].endswith(".ipynb"):
            sys.exit(run_ipynb(arguments[0]))
        else:
            # As Python does: the folder of the script is resolved, its name in tracebacks is not.
            script = os.path.join(os.getcwd(), arguments[0])  # noqa: PTH109, PTH118
            sys.argv = arguments
            sys.path[0] = str(Path(script).resolve().parent)
            run_script(script)
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
            trace = trace.tb_next
        error.__traceback__ = trace
        # Here, since more frames follow on the way to the interpreter, which then decides on the exit code.
        sys.excepthook(type(error), error, trace)
        sys.excepthook = _ignore_error
        raise


def _ignore_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print nothing."""


if __name__ == "__main__":
    main(sys.argv[1:])
