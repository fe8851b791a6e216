"""`clew run`: run a notebook, script or command under capture, without changing it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click

from clew.capture.launch import capture_command, capture_environment, ensure_writable_folder, validate_notebook
from clew.capture.notebooks import Notebook
from clew.capture.streams.completion import expand_logs
from clew.capture.streams.files import LINEAGE
from clew.errors import UsageError
from clew.home import DataDir
from clew.settings import resolve_setting


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Write the event files to this directory."
)
@click.option("--home", type=click.Path(file_okay=False, path_type=Path), help="Data directory.")
@click.option("--json", "as_json", is_flag=True, help="Print the directories of the event files as JSON.")
@click.argument("arguments", metavar="FILE|COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def run_command(out: Path | None, home: Path | None, as_json: bool, arguments: tuple[str, ...]) -> None:  # noqa: FBT001
    """Run a notebook, a script or a command under capture.

    \b
    clew run notebook.py
    clew run script.py --script-option value
    clew run -- marimo edit notebook.py
    """  # noqa: D301 - click looks for the character itself
    root = ensure_writable_folder(out) if out is not None else ensure_writable_folder(DataDir.find(home).streams)
    before = _sessions_in(root)
    code = _run_process(build_command_line(arguments), _environment(root, is_session_folder=out is not None))
    folders = [root] if out is not None else sorted(_sessions_in(root) - before)
    for folder in folders:
        _complete_streams(folder)
    written = [folder for folder in folders if (folder / LINEAGE).is_file()]
    if as_json:
        click.echo(json.dumps({"streams": [str(folder) for folder in written], "exit_code": code}))
    else:
        for folder in written:
            click.echo(f"clew: events written to {folder}", err=True)
    if not written:
        click.echo("clew: nothing was captured", err=True)
    sys.exit(code)


def _complete_streams(folder: Path) -> None:
    try:
        expand_logs(folder)
    except OSError as error:
        # The exit code is the notebook's. `clew pipeline run` completes the events later.
        reason = error.strerror or error
        click.echo(f"clew: cannot write to {folder}: {reason}; the captured log remains there", err=True)


def _run_process(command: list[str], environment: dict[str, str]) -> int:
    with subprocess.Popen(command, env=environment) as process:
        while True:
            try:
                code = process.wait()
                # Shell convention for signals.
                return code if code >= 0 else 128 - code
            except KeyboardInterrupt:
                # The child receives the same Ctrl-C and handles it.
                continue


def build_command_line(arguments: tuple[str, ...]) -> list[str]:
    """Build the command line: Python files, `marimo` and `python` run with this interpreter under capture."""
    first, *rest = arguments
    if first.endswith(".py"):
        if not Path(first).is_file():
            raise UsageError(
                f"No such file: {first}.", hint="Pass the path of a notebook or script, or a command after `--`."
            )
        if Notebook.read(Path(first)) is not None:
            validate_notebook(first)
        return capture_command([first, *rest])
    if Path(first).name in ("python", "python3") and rest and (rest[0] == "-m" or rest[0].endswith(".py")):
        return capture_command(rest)
    if first == "marimo":
        return capture_command(["-m", "marimo", *rest])
    return list(arguments)


def _environment(root: Path, *, is_session_folder: bool) -> dict[str, str]:
    environment = capture_environment(os.environ)
    environment["CLEW_OUT" if is_session_folder else "CLEW_STREAMS"] = str(root)
    environment["CLEW_METRICS"] = resolve_setting("metrics").value or ""
    return environment


def _sessions_in(root: Path) -> set[Path]:
    return {entry for entry in root.iterdir() if entry.is_dir()}
