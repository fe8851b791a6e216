"""`clew run`: anything under capture, with nothing written in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click

from clew.capture.launch import bootstrapped, capture_environment, checked_notebook, writable_folder
from clew.capture.notebooks import Notebook
from clew.capture.streams.completion import complete
from clew.capture.streams.files import LINEAGE
from clew.errors import UsageError
from clew.home import Home
from clew.settings import chosen


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Write the three streams into this folder."
)
@click.option("--home", type=click.Path(file_okay=False, path_type=Path), help="The folder of this installation.")
@click.option("--json", "as_json", is_flag=True, help="Print at the end, as JSON, where the streams are.")
@click.argument("what", nargs=-1, required=True, type=click.UNPROCESSED)
def command(out: Path | None, home: Path | None, as_json: bool, what: tuple[str, ...]) -> None:  # noqa: FBT001
    """Run a notebook, a script or a command under capture.

    \b
    clew run notebook.py
    clew run script.py --its --own --arguments
    clew run -- marimo edit notebook.py
    """  # noqa: D301 - click looks for the character itself
    root = writable_folder(out) if out is not None else writable_folder(Home.find(home).streams)
    before = _sessions_in(root)
    code = _exit_code(command_line(what), _environment(root, is_exact=out is not None))
    folders = [root] if out is not None else sorted(_sessions_in(root) - before)
    for folder in folders:
        _complete(folder)
    written = [folder for folder in folders if (folder / LINEAGE).is_file()]
    if as_json:
        click.echo(json.dumps({"streams": [str(folder) for folder in written], "exit_code": code}))
    else:
        for folder in written:
            click.echo(f"clew: streams in {folder}", err=True)
    if not written:
        click.echo("clew: nothing was captured", err=True)
    sys.exit(code)


def _complete(folder: Path) -> None:
    try:
        complete(folder)
    except OSError as error:
        # The notebook has done its work, and its own end is what counts; what it left is completed by whoever reads it.
        click.echo(
            f"clew: cannot write to {folder}: {error.strerror or error}; what was captured waits there", err=True
        )


def _exit_code(command: list[str], environment: dict[str, str]) -> int:
    with subprocess.Popen(command, env=environment) as process:
        while True:
            try:
                code = process.wait()
                # Of a signal, as shells say it.
                return code if code >= 0 else 128 - code
            except KeyboardInterrupt:
                # The child got the same Ctrl-C and decides for itself; its streams are closed once it has ended.
                continue


def command_line(what: tuple[str, ...]) -> list[str]:
    """What to start: a file of Python by the interpreter, `marimo` and `python` by this one, under capture."""
    first, *rest = what
    if first.endswith(".py"):
        if not Path(first).is_file():
            msg = f"There is no file {first}."
            raise UsageError(msg, hint="Give the path of a notebook or a script, or a command after `--`.")
        if Notebook.read(Path(first)) is not None:
            checked_notebook(first)
        return bootstrapped([first, *rest])
    if Path(first).name in ("python", "python3") and rest and (rest[0] == "-m" or rest[0].endswith(".py")):
        return bootstrapped(rest)
    if first == "marimo":
        return bootstrapped(["-m", "marimo", *rest])
    return list(what)


def _environment(root: Path, *, is_exact: bool) -> dict[str, str]:
    environment = capture_environment(os.environ)
    environment["CLEW_OUT" if is_exact else "CLEW_STREAMS"] = str(root)
    environment["CLEW_METRICS"] = chosen("metrics").value or ""
    return environment


def _sessions_in(root: Path) -> set[Path]:
    return {entry for entry in root.iterdir() if entry.is_dir()}
