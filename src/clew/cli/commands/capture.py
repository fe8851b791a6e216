"""`clew run` and `clew demo`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.capture.emit.files import LINEAGE
from clew.capture.emit.worker import expand_logs
from clew.capture.environments.marimo import Notebook
from clew.capture.launch import capture_command, capture_environment, ensure_writable_folder, validate_notebook
from clew.cli.options import home_option, json_flag, spark_options
from clew.cli.output import format_count, print_json, show_progress, stderr_console, stdout_console
from clew.config import DEFAULT_PORT, resolve_setting
from clew.data_dir import DataDir
from clew.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from clew.demo.run import DemoResult


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
    clew run notebook.ipynb
    clew run script.py --script-option value
    clew run -- marimo edit notebook.py
    clew run -- pytest test_notebook.py
    clew run -- jupyter nbconvert --execute --to html notebook.ipynb
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
    # Commands of this environment are found even if it is not activated.
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))
    program = shutil.which(command[0], path=path)
    if program is None:
        raise UsageError(
            f"There is no file or command {command[0]!r}.",
            hint="Pass the path of a notebook or script, or a command after `--`.",
        )
    with subprocess.Popen(command, env=environment, executable=program) as process:
        while True:
            try:
                code = process.wait()
                # Shell convention for signals.
                return code if code >= 0 else 128 - code
            except KeyboardInterrupt:
                # The child receives the same Ctrl-C and handles it.
                continue


def build_command_line(arguments: tuple[str, ...]) -> list[str]:
    """Build the command line: Python files, `marimo`, `pytest` and `python` run with this interpreter under capture."""
    first, *rest = arguments
    if first.endswith((".py", ".ipynb")):
        if not Path(first).is_file():
            raise UsageError(
                f"No such file: {first}.", hint="Pass the path of a notebook or script, or a command after `--`."
            )
        if first.endswith(".ipynb"):
            _check_jupyter(rest)
        elif Notebook.read(Path(first)) is not None:
            validate_notebook(first)
        return capture_command([first, *rest])
    if Path(first).name in ("python", "python3") and rest and (rest[0] == "-m" or rest[0].endswith(".py")):
        return capture_command(rest)
    if first == "marimo" or (first == "pytest" and find_spec(first) is not None):
        return capture_command(["-m", first, *rest])
    return list(arguments)


def _check_jupyter(arguments: list[str]) -> None:
    for module in ("nbclient", "ipykernel"):
        if find_spec(module) is None:
            raise MissingExtraError.for_module("jupyter", module)
    if arguments:
        raise UsageError(
            f"A Jupyter notebook takes no arguments: {' '.join(arguments)}.", hint="Use papermill to pass parameters."
        )


def _environment(root: Path, *, is_session_folder: bool) -> dict[str, str]:
    environment = capture_environment(os.environ)
    environment["CLEW_OUT" if is_session_folder else "CLEW_STREAMS"] = str(root)
    environment["CLEW_METRICS"] = resolve_setting("metrics").value or ""
    return environment


def _sessions_in(root: Path) -> set[Path]:
    return {entry for entry in root.iterdir() if entry.is_dir()}


@click.command("demo")
@click.option("--fresh", is_flag=True, help="Run the notebook again, even if its last run is recorded.")
@click.option(
    "--serve/--no-serve", "is_serving", default=None, help="Serve the web UI afterwards. Default: ask on a terminal."
)
@click.option(
    "--port", type=int, default=DEFAULT_PORT, show_default=True, help="Port of the web UI; 0 picks a free one."
)
@json_flag
@home_option
@spark_options
def demo_command(
    fresh: bool,  # noqa: FBT001
    is_serving: bool | None,  # noqa: FBT001
    port: int,
    as_json: bool,  # noqa: FBT001
    home: DataDir,
    master: str,
    conf: dict[str, str],
) -> None:
    """Run an example notebook under capture, process its events with Spark, and trace a column to its sources."""
    # Imported here: `clew run` must not load Spark and the web server.
    from clew.demo.run import run_demo

    with show_progress() as progress:
        demo = run_demo(home.create(), on_progress=progress, is_fresh=fresh, master=master, conf=conf)
    if as_json:
        fields = {"column": demo.column, "session": demo.run.session_id, "page": str(demo.page)}
        print_json({**fields, "events": demo.ingested.events, "reused": demo.reused, "upstream": demo.upstream})
    else:
        _print_demo(demo, home)
    if (not as_json and _confirm_serving()) if is_serving is None else is_serving:
        from clew.cli.serving import build_read_app
        from clew.server.origin_check import LOOPBACK
        from clew.server.run import listen, serve

        with listen(LOOPBACK[0], port) as listener:
            serve(build_read_app(home), listener, stderr_console().print)


def _confirm_serving() -> bool:
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and click.confirm("Serve the web UI?", default=True, err=True)


def _print_demo(demo: DemoResult, home: DataDir) -> None:
    from clew.cli.render.lineage import upstream_tree
    from clew.cli.render.runs import run_summary

    console = stdout_console()
    console.print(upstream_tree(demo.upstream))
    console.print()
    console.print(run_summary(demo.run))
    console.print(f"Run page: {demo.page}", style="bold", markup=False)
    messages = stderr_console()
    if demo.reused:
        messages.print(f"Run {demo.run.session_id} was already recorded; --fresh runs the notebook again.")
    messages.print(f"Ingested {format_count(demo.ingested.events, 'new event')}.")
    messages.print(f"Next: clew upstream {demo.column}{_home_flag(home)}", markup=False)


def _home_flag(home: DataDir) -> str:
    return "" if DataDir.find().root == home.root else f" --home {_relative_path(home.root)}"


def _relative_path(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
