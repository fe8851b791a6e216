"""`clew runs`, `show` and `report`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from clew.cli.completion import complete_dataset, complete_session
from clew.cli.options import index_option, json_flag, json_option, lake_option, parse_age, spark_options
from clew.cli.output import (
    format_count,
    format_duration,
    format_megabytes,
    new_table,
    print_json,
    shorten,
    show_progress,
    stderr_console,
    stdout_console,
    write_file,
)
from clew.cli.render.runs import cell_table, run_summary
from clew.data_dir import DataDir
from clew.errors import UsageError
from clew.query.entities.runs import SLOW_SAMPLE_SIZE, JobRunSummary, RunSelection
from clew.query.model import NotebookRun
from clew.query.names import EmptyIndexError, UnknownNameError, full_name
from clew.query.notebooks.reports import SessionResources, TimelineEntry, build_timeline
from clew.query.quality import ColumnDrift, DatasetDrift
from clew.query.service import NotebookService

if TYPE_CHECKING:
    from clew.reports.run import WrittenReport

_STYLES = {"COMPLETED": "green", "FAILED": "red", "ABORTED": "yellow", "RUNNING": "cyan"}
# Run ids are long and useless when truncated.
_MIN_WIDTH = 110
_MAX_ERROR = 80


def _print_runs(runs: list[JobRunSummary]) -> None:
    if not runs:
        stderr_console().print("No runs found.")
        return
    titles = ("started", "state", "duration", "job", "run", "error")
    table = new_table(*titles, right={"duration"}, no_wrap={"started", "state", "duration", "run"})
    for run in runs:
        table.add_row(
            "" if run.started_at is None else f"{run.started_at:%Y-%m-%d %H:%M:%S}",
            Text(run.state.lower(), style=_STYLES.get(run.state, "")),
            "" if run.duration_ms is None else format_duration(run.duration_ms),
            run.job_name or "",
            run.session_id or run.run_uuid,
            Text(shorten((run.error or "").strip().partition("\n")[0], _MAX_ERROR), style="red"),
        )
    stdout_console(_MIN_WIDTH).print(table)


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
@json_option(_print_runs)
@index_option
def runs_command(selection: RunSelection | None, since: str | None, limit: int, home: DataDir) -> list[JobRunSummary]:
    """List runs of notebooks and other jobs, newest first.

    Cells and operations of a notebook are runs too; `clew show SESSION` lists them.
    """
    earliest = None if since is None else datetime.now(UTC) - parse_age(since)
    with NotebookService(home.index) as service:
        return service.job_runs(selection or "recent", since=earliest, limit=limit)


@click.command("show")
@click.argument("session", required=False, shell_complete=complete_session)
@json_option(lambda run: stdout_console().print(run_summary(run), cell_table(run), sep="\n"))
@index_option
def show_command(session: str | None, home: DataDir) -> NotebookRun:
    """Show a notebook run: its cells with time and memory, and the datasets read and written.

    SESSION is a session id; by default the latest run is shown.
    """
    with NotebookService(home.index) as service:
        return _load_run(service, session)


def _load_run(service: NotebookService, session: str | None) -> NotebookRun:
    run = service.latest_run() if session is None else service.run(session)
    if run is None:
        raise EmptyIndexError.no_notebook_runs()
    return run


_MAX_DETAIL = 90


@click.group("report")
def report_group() -> None:
    """Report on performance, the audit trail of a session, data quality, a notebook, or the whole lake."""


@report_group.command("performance")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="Maximum number of sessions.")
@json_option(lambda sessions: stdout_console().print(_resource_table(sessions)))
@index_option
def report_performance(session: str | None, limit: int, home: DataDir) -> list[SessionResources]:
    """Show time and memory per session, and the slowest cells.

    SESSION is a session id; by default the latest sessions are shown.
    """
    with NotebookService(home.index) as service:
        return service.resources(session, limit=limit)


@report_group.command("audit")
@click.argument("session", required=False, shell_complete=complete_session)
@json_option(lambda entries: stdout_console().print(_timeline_table(entries)))
@index_option
def report_audit(session: str | None, home: DataDir) -> list[TimelineEntry]:
    """Show the audit trail of a session: operations in time order, with their data.

    SESSION is a session id; by default the latest session is shown.
    """
    with NotebookService(home.index) as service:
        return build_timeline(_load_run(service, session))


@report_group.command("quality")
@click.argument("dataset", shell_complete=complete_dataset)
@json_option(lambda drift: stdout_console().print(*_drift_parts(drift), sep="\n"))
@index_option
def report_quality(dataset: str, home: DataDir) -> DatasetDrift:
    """Show how a dataset changed between runs: rows, columns, types and column metrics.

    A unique suffix of the dataset name is enough.
    """
    with NotebookService(home.index) as service:
        return service.drift(dataset)


@report_group.command("documentation")
@click.argument("name", metavar="[NOTEBOOK|SESSION]", required=False, shell_complete=complete_session)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Output file, .md or .html.")
@json_flag
@index_option
def report_documentation(name: str | None, out: Path | None, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Document a notebook in Markdown or HTML: inputs, cells and outputs, with column lineage."""
    from clew.cli.render.runs import documentation_html, documentation_markdown

    if out is not None and out.suffix not in {".md", ".html"}:
        raise UsageError(f"{out} is neither .md nor .html.", hint="Pass a file name that ends in .md or .html.")
    with NotebookService(home.index) as service:
        document = service.documentation(name)
    if as_json:
        print_json(document)
    elif out is None:
        click.echo(documentation_markdown(document), nl=False)
    else:
        render = documentation_html if out.suffix == ".html" else documentation_markdown
        write_file(out, render(document).encode())
        stderr_console().print(f"Wrote {out}")


def _print_reports(reports: list[WrittenReport]) -> None:
    for report in reports:
        stdout_console().print(f"{report.path}  {report.title}, {format_count(report.rows, 'row')}")


@report_group.command("lake")
@click.argument("names", metavar="[REPORT]...", nargs=-1)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reports"),
    show_default=True,
    help="Output directory.",
)
@json_option(_print_reports)
@lake_option
@spark_options
def report_lake(
    names: tuple[str, ...], out: Path, home: DataDir, master: str, conf: dict[str, str]
) -> list[WrittenReport]:
    """Create reports on the whole lake with Spark; each is an HTML page with a chart and a table.

    REPORT is performance, debugging, audit, resources, governance, schemas, impact, quality or documentation. The
    default is all of them.
    """
    from clew.reports.run import REPORTS, write_reports

    for name in names:
        if name not in REPORTS:
            raise UnknownNameError.of("report", name, REPORTS)
    with show_progress() as progress:
        return write_reports(home, out, names or tuple(REPORTS), on_progress=progress, master=master, conf=conf)


def _resource_table(sessions: list[SessionResources]) -> Table:
    table = new_table("session", "notebook", "cell", "state", "time", "memory", right={"time", "memory"})
    for session in sessions:
        cells = format_count(session.cell_count, "cell")
        table.add_row(
            session.session_id,
            session.notebook,
            cells,
            session.state.lower(),
            format_duration(session.cells_ms),
            f"peak {format_megabytes(session.peak_memory_mb)}",
            style="bold",
        )
        for cell in session.slowest:
            increase = "" if cell.memory_increase_mb is None else f"{cell.memory_increase_mb:+,.0f} MB"
            table.add_row("", "", cell.cell, cell.state, format_duration(cell.duration_ms), increase)
    return table


def _timeline_table(entries: list[TimelineEntry]) -> Table:
    table = new_table("time", "event", "cell", "detail", "read", "wrote")
    for entry in entries:
        at = "" if entry.at is None else f"{entry.at:%Y-%m-%d %H:%M:%S.%f}"[:-3]
        detail = shorten(entry.detail, _MAX_DETAIL)
        table.add_row(at, entry.kind, entry.cell, detail, _last_segments(entry.read), _last_segments(entry.wrote))
    return table


def _last_segments(names: tuple[str, ...]) -> str:
    return ", ".join(name.rsplit("/", 1)[-1] for name in names)


def _drift_parts(drift: DatasetDrift) -> Iterator[Table | str]:
    counts = [run.row_count for run in drift.runs if run.row_count is not None]
    rows = f", {min(counts):,} to {max(counts):,} rows" if counts else ""
    summary = f"{format_count(len(drift.runs), 'read or write', 'reads and writes')}{rows}"
    yield f"{full_name(drift.dataset)}  {summary}"
    table = new_table("column", "type", "nulls", "distinct", "min", "max")
    for column in drift.columns:
        table.add_row(
            column.column, f"{column.type or ''}{'' if column.is_current else ' (removed)'}", *_metric_changes(column)
        )
    yield table
    for change in drift.schema_changes:
        parts = {"added": change.added, "removed": change.removed, "retyped": change.retyped}
        changes = "; ".join(f"{word} {', '.join(names)}" for word, names in parts.items() if names)
        yield f"{'' if change.at is None else f'{change.at:%Y-%m-%d %H:%M:%S}  '}{changes}  (run {change.run_uuid})"


def _metric_changes(column: ColumnDrift) -> Iterator[str]:
    yield _format_change(column.first_null_share, column.last_null_share, ".1%")
    for name in ("distinct_count", "min", "max"):
        first, last = (None if metrics is None else getattr(metrics, name) for metrics in (column.first, column.last))
        yield _format_change(first, last, "")


def _format_change(first: object, last: object, spec: str) -> str:
    if last is None:
        return ""
    return f"{last:{spec}}" if first is None or first == last else f"{first:{spec}} → {last:{spec}}"
