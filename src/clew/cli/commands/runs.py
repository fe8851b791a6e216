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
from clew.cli.options import (
    LIMIT,
    fresh_index_option,
    index_option,
    json_flag,
    json_option,
    lake_option,
    require_age,
    spark_options,
)
from clew.cli.output import (
    format_bytes,
    format_count,
    format_duration,
    format_megabytes,
    new_table,
    print_json,
    show_progress,
    stderr_console,
    stdout_console,
    write_file,
)
from clew.cli.render.runs import cell_table, run_summary
from clew.data_dir import DataDir
from clew.errors import UsageError
from clew.query.entities.model import AssertionResult
from clew.query.entities.runs import SLOW_SAMPLE_SIZE, JobRunSummary, RunSelection
from clew.query.model import NotebookRun, shorten
from clew.query.names import UnknownNameError, full_name
from clew.query.notebooks.reports import Downstream, SessionResources, TimelineEntry, build_timeline
from clew.query.quality import ColumnDrift, ColumnMetrics, DatasetDrift, QualityCounts
from clew.query.service import LineageService

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
    has_tests = any(run.tests is not None for run in runs)
    titles = ("started", "state", "duration", *(("tests",) if has_tests else ()), "job", "run", "error")
    table = new_table(*titles, right={"duration"}, no_wrap={"started", "state", "duration", "tests", "run"})
    for run in runs:
        table.add_row(
            "" if run.started_at is None else f"{run.started_at:%Y-%m-%d %H:%M:%S}",
            Text(run.state.lower(), style=_STYLES.get(run.state, "")),
            "" if run.duration_ms is None else format_duration(run.duration_ms),
            *((_format_tests(run.tests),) if has_tests else ()),
            run.job_name or "",
            run.session_id or run.run_uuid,
            Text(shorten((run.error or "").strip().partition("\n")[0], _MAX_ERROR), style="red"),
        )
    stdout_console(_MIN_WIDTH).print(table)


def _format_tests(tests: QualityCounts | None) -> Text:
    return Text() if tests is None else Text(str(tests), style="red" if tests.failed else "green")


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
@click.option("--limit", type=LIMIT, default=20, show_default=True, help="Maximum number of runs.")
@json_option(_print_runs)
@fresh_index_option
def runs_command(selection: RunSelection | None, since: str | None, limit: int, home: DataDir) -> list[JobRunSummary]:
    """List runs of notebooks and other jobs, newest first.

    Cells and operations of a notebook are runs too; `clew show` lists them.
    """
    earliest = None if since is None else datetime.now(UTC) - require_age(since)
    with LineageService.open(home.index) as service:
        return service.list_job_runs(selection or "recent", since=earliest, limit=limit)


@click.command("show")
@click.argument("name", metavar="[NOTEBOOK|SESSION]", required=False, shell_complete=complete_session)
@json_option(lambda run: stdout_console().print(run_summary(run), cell_table(run), sep="\n"))
@fresh_index_option
def show_command(name: str | None, home: DataDir) -> NotebookRun:
    """Show a notebook run: its cells with time and memory, and the datasets read and written.

    The argument is a session id or a notebook, whose latest run is shown; by default the latest run of all.
    """
    with LineageService.open(home.index) as service:
        return service.find_session(name)


_MAX_DETAIL = 90
_RESULTS = {True: Text("passed", "green"), False: Text("failed", "red"), None: Text("unknown", "yellow")}
# Titles of metrics, and their fields.
_METRICS = {
    "nulls": "null_count",
    "distinct": "distinct_count",
    "min": "min",
    "max": "max",
    "average": "average",
    "sum": "sum",
    "values": "count",
    "quantiles": "quantiles",
}
_BASIC_METRICS = frozenset({"nulls", "distinct", "min", "max"})
_MAX_CODE = 48


@click.group("report")
def report_group() -> None:
    """Report on performance, the audit trail of a session, data quality, a notebook, or the whole lake."""


@report_group.command("performance")
@click.argument("name", metavar="[NOTEBOOK|SESSION]", required=False, shell_complete=complete_session)
@click.option("--limit", type=LIMIT, default=10, show_default=True, help="Maximum number of sessions.")
@json_option(lambda sessions: stdout_console().print(_resource_table(sessions)))
@index_option
def report_performance(name: str | None, limit: int, home: DataDir) -> list[SessionResources]:
    """Show time and memory per session, the slowest cells and operations, and what depends on them.

    The argument is a session id or a notebook, whose latest session is shown; by default the latest sessions of all.
    """
    with LineageService.open(home.index) as service:
        return service.summarize_resources(name, limit=limit)


@report_group.command("audit")
@click.argument("name", metavar="[NOTEBOOK|SESSION]", required=False, shell_complete=complete_session)
@json_option(lambda entries: stdout_console().print(_timeline_table(entries)))
@index_option
def report_audit(name: str | None, home: DataDir) -> list[TimelineEntry]:
    """Show the audit trail of a session: operations in time order, with their data.

    The argument is a session id or a notebook, whose latest session is shown; by default the latest session of all.
    """
    with LineageService.open(home.index) as service:
        return build_timeline(service.find_session(name))


@report_group.command("quality")
@click.argument("dataset", shell_complete=complete_dataset)
@json_option(lambda drift: stdout_console().print(*_drift_parts(drift), sep="\n"))
@index_option
def report_quality(dataset: str, home: DataDir) -> DatasetDrift:
    """Show data quality tests of a dataset, and how it changed between runs: rows, columns, types, column metrics.

    A unique suffix of the dataset name is enough.
    """
    with LineageService.open(home.index) as service:
        return service.compute_drift(dataset)


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
    with LineageService.open(home.index) as service:
        document = service.document_notebook(name)
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
    figures = ("time", "memory", "operations", "per operation", "per column", "downstream")
    table = new_table("session", "notebook", "cell", "state", *figures, right=set(figures))
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
            table.add_row(
                *("", "", cell.cell, cell.state, format_duration(cell.duration_ms), increase),
                str(cell.operations),
                *map(_format_cost, (cell.ms_per_operation, cell.ms_per_column)),
                _format_downstream(cell.downstream),
            )
        for operation in session.slowest_operations:
            code = shorten(f"  {operation.cell or ''}: {operation.code}", _MAX_CODE)
            table.add_row(
                *("", "", code, "", format_duration(operation.duration_ms), "", "", ""),
                _format_cost(operation.ms_per_column),
                _format_downstream(operation.downstream),
                style="dim",
            )
    return table


def _format_cost(milliseconds: float | None) -> str:
    return "" if milliseconds is None else format_duration(milliseconds)


def _format_downstream(downstream: Downstream) -> str:
    if not downstream.operations:
        return ""
    return (
        f"{format_count(downstream.operations, 'operation')}, {format_count(downstream.columns, 'column')}, "
        f"{format_count(downstream.datasets, 'dataset')}"
    )


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
    sizes = [run.bytes for run in drift.runs if run.bytes is not None]
    yield f"{full_name(drift.dataset)}  {summary}{f', {format_bytes(sizes[0])}' if sizes else ''}"
    if drift.assertions:
        yield from ("", _test_table(drift.assertions), "")
    yield _metric_table(drift.columns)
    for change in drift.schema_changes:
        parts = {"added": change.added, "removed": change.removed, "retyped": change.retyped}
        changes = "; ".join(f"{word} {', '.join(names)}" for word, names in parts.items() if names)
        yield f"{'' if change.at is None else f'{change.at:%Y-%m-%d %H:%M:%S}  '}{changes}  (run {change.run_uuid})"


def _test_table(results: tuple[AssertionResult, ...]) -> Table:
    table = new_table("result", "test", "column", "expected", "actual", "severity", "at", "run", no_wrap={"result"})
    for result in results:
        table.add_row(
            _RESULTS[result.success],
            result.name or result.assertion,
            result.column or "",
            result.expected or "",
            result.actual or "",
            result.severity or "",
            "" if result.at is None else f"{result.at:%Y-%m-%d %H:%M:%S}",
            result.run_uuid or "",
        )
    return table


def _metric_table(columns: tuple[ColumnDrift, ...]) -> Table:
    rows = [_metric_changes(column) for column in columns]
    # Most producers report few metrics.
    shown = [name for name in _METRICS if name in _BASIC_METRICS or any(row[name] for row in rows)]
    table = new_table("column", "type", *shown)
    for column, row in zip(columns, rows, strict=True):
        column_type = f"{column.type or ''}{'' if column.is_current else ' (removed)'}"
        table.add_row(column.column, column_type, *(row[name] for name in shown))
    return table


def _metric_changes(column: ColumnDrift) -> dict[str, str]:
    # Without a row count, nulls have no share.
    changes = {
        "nulls": _format_change(column.first_null_share, column.last_null_share, ".1%"),
        "distinct": _format_change(_format_distinct(column.first), _format_distinct(column.last), ""),
    }
    for title, name in _METRICS.items():
        first, last = (None if metrics is None else getattr(metrics, name) for metrics in (column.first, column.last))
        changes[title] = changes.get(title) or _format_change(first, last, "")
    return changes


def _format_distinct(metrics: ColumnMetrics | None) -> str | None:
    """Format a distinct count, with `~` before an estimate."""
    if metrics is None or metrics.distinct_count is None:
        return None
    return f"{'~' if metrics.sampled else ''}{metrics.distinct_count}"


def _format_change(first: object, last: object, spec: str) -> str:
    if isinstance(last, dict):
        return " ".join(f"{key}: {_format_value(value)}" for key, value in last.items())
    if last is None:
        return ""
    texts = [f"{value:{spec}}" if spec and value is not None else _format_value(value) for value in (first, last)]
    return texts[1] if first is None or first == last else f"{texts[0]} → {texts[1]}"


def _format_value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) and not value.is_integer() else str(value)
