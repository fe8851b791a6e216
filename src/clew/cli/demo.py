"""`clew demo`: the main job, end to end."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from clew.cli.figures import counted
from clew.cli.hops import tree
from clew.cli.options import home_option, json_option, spark_options
from clew.cli.runs_text import summary
from clew.cli.screen import data, print_json, progress, talk
from clew.cli.serve import answering_app
from clew.demo.job import Demo, run_demo
from clew.home import Home
from clew.serving.server import DEFAULT_PORT, LOOPBACK, listen, serve


@click.command("demo")
@click.option("--fresh", is_flag=True, help="Run the notebook again, even if its last run is recorded.")
@click.option("--serve/--no-serve", "is_serving", default=None, help="Serve the page afterwards; asked on a terminal.")
@click.option("--port", type=int, default=DEFAULT_PORT, show_default=True, help="Port of the page; 0 picks a free one.")
@json_option
@home_option
@spark_options
def command(
    fresh: bool,  # noqa: FBT001
    is_serving: bool | None,  # noqa: FBT001
    port: int,
    as_json: bool,  # noqa: FBT001
    home: Home,
    master: str,
    conf: dict[str, str],
) -> None:
    """Run an example notebook under capture, take its events through Spark, and follow a column back to its source."""
    with progress() as say:
        demo = run_demo(home.create(), say=say, is_fresh=fresh, master=master, conf=conf)
    if as_json:
        told = {"column": demo.column, "session": demo.run.session_id, "page": str(demo.page)}
        print_json({**told, "events": demo.taken.events, "was_recorded": demo.was_recorded, "upstream": demo.answer})
    else:
        _print(demo, home)
    if (not as_json and _stays()) if is_serving is None else is_serving:
        with listen(LOOPBACK[0], port) as listener:
            serve(answering_app(home), listener, talk().print)


def _stays() -> bool:
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and click.confirm("Serve the page and stay?", default=True, err=True)


def _print(demo: Demo, home: Home) -> None:
    console = data()
    console.print(tree(demo.answer))
    console.print()
    console.print(summary(demo.run))
    console.print(f"Page: {demo.page}", style="bold", markup=False)
    told = talk()
    if demo.was_recorded:
        told.print(f"The notebook's run {demo.run.session_id} was recorded before; --fresh runs it again.")
    told.print(f"{counted(demo.taken.events, 'new event')} taken in.")
    told.print(f"Ask on with: clew upstream {demo.column}{_home_flag(home)}", markup=False)


def _home_flag(home: Home) -> str:
    return "" if Home.find().root == home.root else f" --home {_short(home.root)}"


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
