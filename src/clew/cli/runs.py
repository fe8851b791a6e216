"""`clew runs`: which runs there were."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from rich.table import Table
from rich.text import Text

from clew.cli.figures import duration
from clew.cli.options import age, index_option, json_option
from clew.cli.screen import data, print_json, talk
from clew.home import Home
from clew.query.answers import Answers
from clew.query.run_entries import SLOW_AMONG, RunEntry, RunKind

_STYLES = {"COMPLETED": "green", "FAILED": "red", "ABORTED": "yellow", "RUNNING": "cyan"}
# Ids of runs are long, and of no use when they are cut.
_NARROWEST = 110
_LONGEST_ERROR = 80


@click.command("runs")
@click.option("--failed", "kind", flag_value="failed", help="Only runs that failed or were aborted.")
@click.option(
    "--slow", "kind", flag_value="slow", help=f"Those of the last {SLOW_AMONG:,} that took longest, the longest first."
)
@click.option("--since", metavar="AGE", default=None, help="Only runs that began within this time: 90d or 36h.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many at most.")
@json_option
@index_option
def command(kind: RunKind | None, since: str | None, limit: int, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """List runs of notebooks and of other jobs, the newest first.

    The cells and operations of a notebook are runs, too; `clew show SESSION` shows them.
    """
    earliest = None if since is None else datetime.now(UTC) - age(since)
    with Answers(home.index) as answers:
        found = answers.job_runs(kind or "recent", since=earliest, limit=limit)
    if as_json:
        print_json(found)
    elif found:
        data(_NARROWEST).print(_table(found))
    else:
        talk().print("There are no such runs.")


def _table(runs: list[RunEntry]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("started", "state", "took", "job", "run", "error"):
        table.add_column(title, justify="right" if title == "took" else "left", no_wrap=title not in {"job", "error"})
    for run in runs:
        table.add_row(
            "" if run.started_at is None else f"{run.started_at:%Y-%m-%d %H:%M:%S}",
            Text(run.state.lower(), style=_STYLES.get(run.state, "")),
            "" if run.duration_ms is None else duration(run.duration_ms),
            run.job_name or "",
            run.session_id or run.run_uuid,
            Text(_first_line(run.error), style="red"),
        )
    return table


def _first_line(error: str | None) -> str:
    line = (error or "").strip().partition("\n")[0]
    return line if len(line) <= _LONGEST_ERROR else f"{line[: _LONGEST_ERROR - 1]}…"
