"""`clew report`: answers that are longer than a screen of text, to be read, sent or kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from rich.table import Table

from clew.cli.figures import counted, duration, megabytes
from clew.cli.names import complete_dataset, complete_session
from clew.cli.options import index_option, json_option, lake_option, spark_options
from clew.cli.screen import data, print_json, progress, talk
from clew.errors import ClewError, UsageError
from clew.home import Home
from clew.query.answers import Answers
from clew.query.drift import ColumnDrift, Drift
from clew.query.model import NotebookRun
from clew.query.names import NothingRecordedError, UnknownNameError, full_name
from clew.query.session_costs import SessionCost
from clew.query.trail import Entry, trail

_LONGEST_DETAIL = 90


@click.group("report")
def command() -> None:
    """Report on performance, on a session's trail, on quality, on a pipeline, or on a whole lake."""


@command.command("performance")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="How many sessions at most.")
@json_option
@index_option
def performance(session: str | None, limit: int, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show time and memory by session, and the cells that took most of it.

    SESSION is a run's id; without it the last sessions are shown.
    """
    with Answers(home.index) as answers:
        found = answers.costs(session, limit=limit)
    if as_json:
        print_json(found)
    else:
        data().print(_cost_table(found))


@command.command("audit")
@click.argument("session", required=False, shell_complete=complete_session)
@json_option
@index_option
def audit(session: str | None, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show the trail of a session: what was done when, and with which data.

    SESSION is a run's id; without it the last session is shown.
    """
    with Answers(home.index) as answers:
        run = answers.latest() if session is None else answers.run(session)
    entries = trail(_recorded(run))
    if as_json:
        print_json(entries)
    else:
        data().print(_trail_table(entries))


@command.command("quality")
@click.argument("dataset", shell_complete=complete_dataset)
@json_option
@index_option
def quality(dataset: str, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show how a dataset changed from run to run: rows, columns and types, and the metrics of each column.

    DATASET may be named by the end of its name.
    """
    with Answers(home.index) as answers:
        found = answers.drift(dataset)
    if as_json:
        print_json(found)
    else:
        for part in _drift_parts(found):
            data().print(part)


@command.command("documentation")
@click.argument("name", metavar="[NOTEBOOK|SESSION]", required=False, shell_complete=complete_session)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write this file, .md or .html.")
@json_option
@index_option
def documentation(name: str | None, out: Path | None, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Describe a notebook as a pipeline, in Markdown or HTML: what it reads, does and writes, column by column."""
    from clew.cli.documents import html, markdown

    if out is not None and out.suffix not in {".md", ".html"}:
        raise UsageError(f"{out} is neither .md nor .html.", hint="Name a file that ends in .md or .html.")
    with Answers(home.index) as answers:
        found = answers.documentation(name)
    if as_json:
        print_json(found)
    elif out is None:
        click.echo(markdown(found), nl=False)
    else:
        _write(out, html(found) if out.suffix == ".html" else markdown(found))


@command.command("lake")
@click.argument("names", metavar="[REPORT]...", nargs=-1)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reports"),
    show_default=True,
    help="Folder to write the pages into.",
)
@json_option
@lake_option
@spark_options
def lake(
    names: tuple[str, ...],
    out: Path,
    as_json: bool,  # noqa: FBT001
    home: Home,
    master: str,
    conf: dict[str, str],
) -> None:
    """Make reports on the whole lake with Spark, each a page with a plot and a table.

    REPORT is performance, debugging, audit, resources, governance, schemas, impact, quality or documentation; without
    one, all are made.
    """
    from clew.reports.job import write_reports
    from clew.reports.lake_reports import REPORTS

    for name in names:
        if name not in REPORTS:
            raise UnknownNameError.of("report", name, REPORTS)
    with progress() as say:
        made = write_reports(home, out, names or tuple(REPORTS), say=say, master=master, conf=conf)
    if as_json:
        print_json(made)
        return
    for one in made:
        data().print(f"{one.path}  {one.title}, {counted(one.rows, 'row')}")


def _recorded(run: NotebookRun | None) -> NotebookRun:
    if run is None:
        raise NothingRecordedError.yet()
    return run


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise ClewError(f"{path} cannot be written: {fault.strerror}.", hint="Name another file with --out.") from fault
    talk().print(f"Written: {path}")


def _table(*columns: str, numbers: frozenset[str] = frozenset()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left")
    return table


def _cost_table(found: list[SessionCost]) -> Table:
    table = _table("session", "notebook", "cell", "state", "time", "memory", numbers=frozenset({"time", "memory"}))
    for one in found:
        cells = counted(one.cell_count, "cell")
        table.add_row(
            one.session_id,
            one.notebook,
            cells,
            one.state.lower(),
            duration(one.cells_ms),
            f"peak {megabytes(one.peak_memory_mb)}",
            style="bold",
        )
        for cell in one.slowest:
            grown = "" if cell.grown_mb is None else f"{cell.grown_mb:+,.0f} MB"
            table.add_row("", "", cell.cell, cell.state, duration(cell.duration_ms), grown)
    return table


def _trail_table(entries: list[Entry]) -> Table:
    table = _table("at", "what", "cell", "detail", "read", "wrote")
    for entry in entries:
        at = "" if entry.at is None else f"{entry.at:%Y-%m-%d %H:%M:%S.%f}"[:-3]
        detail = entry.detail if len(entry.detail) <= _LONGEST_DETAIL else f"{entry.detail[: _LONGEST_DETAIL - 1]}…"
        table.add_row(at, entry.what, entry.cell, detail, _ends(entry.read), _ends(entry.wrote))
    return table


def _ends(names: tuple[str, ...]) -> str:
    return ", ".join(name.rsplit("/", 1)[-1] for name in names)


def _drift_parts(found: Drift) -> Iterator[Table | str]:
    counts = [run.row_count for run in found.runs if run.row_count is not None]
    rows = f", {min(counts):,} to {max(counts):,} rows" if counts else ""
    told = f"{counted(len(found.runs), 'read or write', 'reads and writes')}{rows}"
    yield f"{full_name(found.dataset)}  {told}"
    table = _table("column", "type", "nulls", "distinct", "min", "max")
    for column in found.columns:
        table.add_row(
            column.column, f"{column.type or ''}{'' if column.is_there_now else ' (gone)'}", *_metrics(column)
        )
    yield table
    for change in found.schema_changes:
        parts = {"added": change.added, "removed": change.removed, "retyped": change.retyped}
        told = "; ".join(f"{word} {', '.join(names)}" for word, names in parts.items() if names)
        yield f"{'' if change.at is None else f'{change.at:%Y-%m-%d %H:%M:%S}  '}{told}  (run {change.run_uuid})"


def _metrics(column: ColumnDrift) -> Iterator[str]:
    yield _change(column.first_null_share, column.last_null_share, ".1%")
    for name in ("distinct_count", "min", "max"):
        first, last = (None if one is None else getattr(one, name) for one in (column.first, column.last))
        yield _change(first, last, "")


def _change(first: object, last: object, form: str) -> str:
    if last is None:
        return ""
    return f"{last:{form}}" if first is None or first == last else f"{first:{form}} → {last:{form}}"
