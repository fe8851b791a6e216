"""`clew runs`: list runs."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from rich.table import Table
from rich.text import Text

from clew.cli.figures import format_duration
from clew.cli.options import index_option, json_option, parse_age
from clew.cli.screen import print_json, stderr_console, stdout_console
from clew.home import DataDir
from clew.query.answers import NotebookService
from clew.query.run_entries import SLOW_SAMPLE_SIZE, JobRunSummary, RunSelection

_STYLES = {"COMPLETED": "green", "FAILED": "red", "ABORTED": "yellow", "RUNNING": "cyan"}
# Run ids are long and useless when truncated.
_MIN_WIDTH = 110
_MAX_ERROR = 80


@click.command("runs")
@click.option("--failed", "selection", flag_value="failed", help="Only failed or aborted runs.")
@click.option(
    "--slow",
    "selection",
    flag_value="slow",
    help=f"The slowest of the last {SLOW_SAMPLE_SIZE:,} runs, slowest first.",
)
@click.option(
    "--since", metavar="AGE", default=None, help="Only runs that started within this time, such as 90d or 36h."
)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of runs.")
@json_option
@index_option
def runs_command(
    selection: RunSelection | None,
    since: str | None,
    limit: int,
    as_json: bool,  # noqa: FBT001
    home: DataDir,
) -> None:
    """List runs of notebooks and other jobs, newest first.

    Cells and operations of a notebook are runs too; `clew show SESSION` lists them.
    """
    earliest = None if since is None else datetime.now(UTC) - parse_age(since)
    with NotebookService(home.index) as service:
        runs = service.job_runs(selection or "recent", since=earliest, limit=limit)
    if as_json:
        print_json(runs)
    elif runs:
        stdout_console(_MIN_WIDTH).print(_run_table(runs))
    else:
        stderr_console().print("No runs found.")


def _run_table(runs: list[JobRunSummary]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("started", "state", "duration", "job", "run", "error"):
        table.add_column(
            title, justify="right" if title == "duration" else "left", no_wrap=title not in {"job", "error"}
        )
    for run in runs:
        table.add_row(
            "" if run.started_at is None else f"{run.started_at:%Y-%m-%d %H:%M:%S}",
            Text(run.state.lower(), style=_STYLES.get(run.state, "")),
            "" if run.duration_ms is None else format_duration(run.duration_ms),
            run.job_name or "",
            run.session_id or run.run_uuid,
            Text(_first_line(run.error), style="red"),
        )
    return table


def _first_line(error: str | None) -> str:
    line = (error or "").strip().partition("\n")[0]
    return line if len(line) <= _MAX_ERROR else f"{line[: _MAX_ERROR - 1]}…"
