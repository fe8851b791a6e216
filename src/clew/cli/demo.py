"""`clew demo`: run the example notebook through capture, pipeline and query."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from clew.cli.figures import format_count
from clew.cli.hops import upstream_tree
from clew.cli.options import home_option, json_option, spark_options
from clew.cli.runs_text import run_summary
from clew.cli.screen import print_json, show_progress, stderr_console, stdout_console
from clew.cli.serve import build_read_app
from clew.demo.job import DemoResult, run_demo
from clew.home import DataDir
from clew.serving.server import DEFAULT_PORT, LOOPBACK, listen, serve


@click.command("demo")
@click.option("--fresh", is_flag=True, help="Run the notebook again, even if its last run is recorded.")
@click.option(
    "--serve/--no-serve", "is_serving", default=None, help="Serve the web UI afterwards. Default: ask on a terminal."
)
@click.option(
    "--port", type=int, default=DEFAULT_PORT, show_default=True, help="Port of the web UI; 0 picks a free one."
)
@json_option
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
    with show_progress() as progress:
        demo = run_demo(home.create(), on_progress=progress, is_fresh=fresh, master=master, conf=conf)
    if as_json:
        fields = {"column": demo.column, "session": demo.run.session_id, "page": str(demo.page)}
        print_json({**fields, "events": demo.ingested.events, "reused": demo.reused, "upstream": demo.upstream})
    else:
        _print_demo(demo, home)
    if (not as_json and _confirm_serving()) if is_serving is None else is_serving:
        with listen(LOOPBACK[0], port) as listener:
            serve(build_read_app(home), listener, stderr_console().print)


def _confirm_serving() -> bool:
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and click.confirm("Serve the web UI?", default=True, err=True)


def _print_demo(demo: DemoResult, home: DataDir) -> None:
    console = stdout_console()
    console.print(upstream_tree(demo.upstream))
    console.print()
    console.print(run_summary(demo.run))
    console.print(f"Page: {demo.page}", style="bold", markup=False)
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
