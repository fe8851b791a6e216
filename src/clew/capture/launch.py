"""Run an unmodified notebook under capture in a subprocess."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from clew.capture.autostart import ENTRY_FOLDER
from clew.capture.emit.files import RUNTIME
from clew.capture.emit.worker import expand_logs
from clew.capture.environments.marimo import Notebook
from clew.capture.environments.session import new_run_id
from clew.errors import ClewError, MissingExtraError

_TAIL_LINES = 15
_BOOTSTRAP = "clew.capture.bootstrap"


@dataclass(frozen=True)
class CapturedRun:
    """Result of a captured notebook run; the event files are in `streams_dir`."""

    session_id: str
    streams_dir: Path
    exit_code: int
    output: str


def capture_notebook(
    path: str | os.PathLike[str],
    out_dir: str | os.PathLike[str],
    *,
    python: str = sys.executable,
    env: Mapping[str, str] | None = None,
) -> CapturedRun:
    """Run every cell that can run and write the event files to `out_dir/<session_id>/`.

    The notebook runs as in `marimo export`: if a cell fails, only its dependants are skipped, whereas
    `python notebook.py` stops at the first error.
    """
    notebook = validate_notebook(path)
    if find_spec("marimo") is None:
        raise MissingExtraError.for_module("notebook", "marimo")
    streams = ensure_writable_folder(out_dir)
    session_id = new_run_id()[:8]
    with tempfile.TemporaryDirectory(prefix="clew-") as scratch:
        export = [
            "-m",
            "marimo",
            "-q",
            "export",
            "html",
            str(notebook),
            "-o",
            str(Path(scratch) / "notebook.html"),
            "--no-sandbox",
        ]
        # A file, not a pipe: a grandchild that outlives the kernel would hold a pipe open and block us.
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
            finished = subprocess.run(
                capture_command(export, python),
                env={**capture_environment(env), "CLEW_STREAMS": str(streams), "CLEW_SESSION_ID": session_id},
                cwd=notebook.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
            log.seek(0)
            output = log.read()
    run = CapturedRun(session_id, streams / session_id, finished.returncode, output)
    expand_logs(run.streams_dir)
    if not (run.streams_dir / RUNTIME).is_file():
        raise _no_capture_error(notebook, run)
    return run


def capture_command(arguments: Sequence[str], python: str = sys.executable) -> list[str]:
    """Return the command that runs a script or `-m module` under capture."""
    return [python, "-m", _BOOTSTRAP, *arguments]


def capture_environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment in which kernels started by marimo are captured as well."""
    environment = dict(os.environ if env is None else env)
    python_path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = (
        str(ENTRY_FOLDER) if not python_path else os.pathsep.join((str(ENTRY_FOLDER), python_path))
    )
    environment["CLEW_CAPTURE"] = "1"
    # A marimo sandbox does not see this environment's packages; capture needs these two.
    environment["CLEW_PATH"] = os.pathsep.join(dict.fromkeys(map(_install_folder, ("clew", "msgspec"))))
    environment.pop("CLEW_OUT", None)
    return environment


def _install_folder(package: str) -> str:
    spec = find_spec(package)
    origin = spec.origin if spec is not None else None
    return str(Path(origin).parent.parent) if origin is not None else ""


def validate_notebook(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a marimo notebook with at least one cell, or raise an error with a hint."""
    file = Path(path).absolute()
    if not file.is_file():
        msg = f"There is no notebook at {file}." if not file.exists() else f"{file} is not a file."
        raise ClewError(msg, hint="Give the path of a marimo notebook, a .py file.")
    notebook = Notebook.read(file)
    if notebook is None:
        msg = f"{file} is not a marimo notebook: it has no `app = marimo.App()`."
        raise ClewError(
            msg, hint="Convert a Jupyter notebook with `marimo convert`; run a plain script with `clew run`."
        )
    if not notebook.cells:
        msg = f"The notebook {file} is empty: it has no cells."
        raise ClewError(msg, hint="Open it with `marimo edit` and write a cell.")
    return file


def ensure_writable_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder if needed, check that it is writable and return its absolute path."""
    folder = Path(path).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        msg = f"Cannot write into {folder}: {error.strerror or error}."
        raise ClewError(msg, hint="Choose another folder, or change its permissions.") from error
    return folder


def _no_capture_error(notebook: Path, run: CapturedRun) -> ClewError:
    tail = "\n".join(run.output.strip().splitlines()[-_TAIL_LINES:])
    msg = f"Nothing was captured from {notebook}: marimo ended with exit code {run.exit_code} before any cell ran."
    return ClewError(
        msg, hint=f"Output of marimo:\n{tail}" if tail else "marimo printed nothing; try `marimo run` on the notebook."
    )
