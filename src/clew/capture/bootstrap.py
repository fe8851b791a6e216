"""Run something under capture, untouched: `python -m clew.capture.bootstrap notebook.py` or `... -m marimo ...`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from clew.capture.adapters.script import run_script
from clew.capture.tracking import track


def main(arguments: list[str]) -> None:
    """Run the script or module that the arguments name, as Python itself would."""
    track()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).absolute().parent)
        run_script(arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
