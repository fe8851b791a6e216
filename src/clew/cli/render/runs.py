"""Render notebook runs, the pipeline status and notebook documentation as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clew.cli.output import format_bytes, format_count, format_duration, format_megabytes, format_shape, new_table
from clew.query.model import DatasetState, NotebookRun
from clew.query.names import short_name
from clew.query.notebooks.reports import (
    DocumentedCell,
    DocumentedDataset,
    NotebookDocumentation,
    peak_memory_mb,
    slowest_cell,
    total_ms,
)
from clew.reports.html import render_page, render_paragraph, render_table

if TYPE_CHECKING:
    from clew.lake.history import CommittedBatch, TableSize
    from clew.pipeline.status import PipelineStatus, RejectionSummary, TopicStatus

_STATE_STYLE = {"completed": "green", "failed": "red", "stopped": "yellow", "running": "cyan", "lost": "red"}


def run_summary(run: NotebookRun) -> RenderableType:
    """Summarize a run: state, cost, failures, inputs and outputs."""
    return Group(*_summary_lines(run))


def cell_table(run: NotebookRun) -> Table:
    """Return a table of the cells in execution order."""
    table = new_table("#", "cell", "state", "time", "memory", "outputs", right={"#", "time", "memory"})
    for cell in run.cells:
        table.add_row(
            "" if cell.index is None else str(cell.index),
            cell.title,
            Text(cell.state, style=_STATE_STYLE.get(cell.state, "")),
            format_duration(cell.duration_ms),
            format_megabytes(cell.end_memory_mb),
            ", ".join(f"{short_name(state.dataset)} {_state_shape(state)}" for state in run.outputs_of(cell)),
        )
    return table


def _summary_lines(run: NotebookRun) -> Iterator[Text]:
    failed = [cell for cell in run.cells if cell.state == "failed"]
    facts = [
        format_count(len(run.cells), "cell"),
        _outcome(run, len(failed)),
        f"{format_duration(total_ms(run))} in cells",
        f"peak {format_megabytes(peak_memory_mb(run))}",
        format_count(len(run.operations), "operation"),
    ]
    yield Text.assemble((run.notebook, "bold"), f"  {' · '.join(facts)}", (f"  session {run.session_id}", "dim"))
    slowest = slowest_cell(run)
    if slowest is not None:
        share = (slowest.duration_ms or 0.0) / max(total_ms(run), 0.001)
        cost = f", {format_duration(slowest.duration_ms)}, {share:.0%} of the run"
        yield Text.assemble("Slowest cell: ", (f"cell {slowest.label}", "cyan"), cost)
    for cell in failed:
        yield Text.assemble(
            "Failed: ", (f"cell {cell.label}", "cyan"), ", ", (str(cell.error or "unknown error"), "red")
        )
    for loss in run.losses:
        yield Text.assemble("Not captured: ", (loss.message, "red"), f": {loss.code}")
    for title, states in (("Read", run.reads), ("Wrote", run.writes)):
        if states:
            yield Text(f"{title}: {', '.join(map(_dataset_text, states))}")


def _outcome(run: NotebookRun, failed: int) -> str:
    states = Counter(cell.state for cell in run.cells)
    counts = {"failed": failed, "lost": states["lost"], "running": states["running"]}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "all completed"


def _dataset_text(state: DatasetState) -> str:
    return f"{short_name(state.dataset)} ({_state_shape(state)})"


def _state_shape(state: DatasetState) -> str:
    return format_shape(state.row_count, len(state.fields))


def status_lines(status: PipelineStatus) -> Iterator[str]:
    """Render everything except the tables."""
    yield "Pipeline  not running" if status.locked_by is None else f"Pipeline  running ({status.locked_by})"
    if status.supervisor is not None and status.supervisor.last_exit is not None:
        yield f"Restarts  {status.supervisor}"
    if status.spark is not None:
        yield f"Spark     {status.spark}"
    if status.topic is None:
        yield f"Log       {_log_line(status)}"
    else:
        yield f"Topic     {_topic_line(status, status.topic)}"
    if status.unread_stream_bytes:
        yield f"Capture   {format_bytes(status.unread_stream_bytes)} of notebook events not read yet"
    yield f"Index     {_index_line(status)}"
    if status.pending_backfill_events:
        pending = format_count(status.pending_backfill_events, "event")
        yield f"Facets    {pending} not backfilled; run `clew pipeline backfill`"
    yield f"Rejected  {_rejected_line(status.rejected)}"
    yield from (f"          {event.source}: {event.reason}, {event.detail}" for event in status.rejected.last)


def batch_table(batches: list[CommittedBatch]) -> Table:
    """Return a table of the last batches, newest first."""
    titles = ("batch", "committed", "duration", "events/s", "rows")
    table = new_table(*titles, no_wrap=titles)
    for batch in batches:
        rows = ", ".join(f"{name} {count:,}" for name, count in batch.rows.items())
        elapsed = "" if batch.seconds is None else format_duration(1000 * batch.seconds)
        throughput = "" if batch.events_per_second is None else f"{batch.events_per_second:,.0f}"
        table.add_row(
            f"{batch.app_id}/{batch.number}", _format_timestamp(batch.committed_at_ms), elapsed, throughput, rows
        )
    return table


def size_table(tables: list[TableSize]) -> Table:
    """Return a table with rows, files and size per lake table."""
    titles = ("table", "rows", "files", "size")
    table = new_table(*titles, right=titles[1:], no_wrap=titles)
    for table_size in tables:
        table.add_row(table_size.name, f"{table_size.rows:,}", f"{table_size.files:,}", format_bytes(table_size.bytes))
    return table


def _log_line(status: PipelineStatus) -> str:
    log = status.log
    if log.position > log.end:
        return f"ends at offset {log.end:,}, before the committed offset {log.position:,}; is this another log?"
    if not log.bytes:
        return f"up to date ({format_bytes(log.end)} ingested)"
    about = "about " if log.is_estimate else ""
    lag = f"{about}{format_count(log.events, 'event')} ({format_bytes(log.bytes)})"
    return f"lag {lag}; ingested up to offset {log.position:,} of {log.end:,}"


def _topic_line(status: PipelineStatus, topic: TopicStatus) -> str:
    error = f"; since {topic.read_at}: {topic.error}" if topic.error else ""
    partitions = format_count(len(topic.offsets), "partition")
    lag = f"lag about {format_count(status.log.events, 'event')}" if status.log.events else "up to date"
    return f"{topic.name}, {partitions}: {lag}{error}"


def _index_line(status: PipelineStatus) -> str:
    if status.index is None or status.index.at is None:
        return "none yet; the next run builds it"
    return f"last written {status.index.at}, by batch {status.index.batch}"


def _rejected_line(rejected: RejectionSummary) -> str:
    if not rejected.count:
        return "no events"
    resolved = rejected.count - (rejected.count if rejected.unresolved is None else rejected.unresolved)
    parts = [format_count(rejected.count, "event")]
    if resolved:
        parts.append(f"{resolved:,} of them ingested since")
    if rejected.corrupt_records:
        parts.append(f"{rejected.corrupt_records:,} of them damaged records of the log")
    return ", ".join(parts)


def _format_timestamp(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def documentation_markdown(documentation: NotebookDocumentation) -> str:
    """Render as Markdown."""
    return "\n".join(_markdown_lines(documentation)) + "\n"


def documentation_html(documentation: NotebookDocumentation) -> str:
    """Render as a self-contained HTML page."""
    parts = [render_paragraph(_notebook_facts(documentation))]
    for title, datasets in (("Reads", documentation.reads), ("Writes", documentation.writes)):
        if datasets:
            parts.append(f"<h2>{title}</h2>")
        for dataset in datasets:
            parts += [f"<h3>{escape(dataset.short_name)}</h3>", render_paragraph(_dataset_facts(dataset))]
            parts.append(render_table(("column", "type", "comes from"), _column_rows(dataset)))
    parts.append("<h2>Cells</h2>")
    for cell in documentation.cells:
        parts += [
            f"<h3>{escape(cell.name)}</h3>",
            render_paragraph(_cell_facts(cell)),
            f"<pre>{escape(cell.code)}</pre>",
        ]
    return render_page(documentation.notebook, *parts)


def _markdown_lines(documentation: NotebookDocumentation) -> Iterator[str]:
    yield from (f"# {documentation.notebook}", "", _notebook_facts(documentation), "")
    for title, datasets in (("Reads", documentation.reads), ("Writes", documentation.writes)):
        if datasets:
            yield from (f"## {title}", "")
        for dataset in datasets:
            yield from (f"### {dataset.short_name}", "", _dataset_facts(dataset), "")
            yield from ("| column | type | comes from |", "|---|---|---|")
            yield from (f"| {' | '.join(map(_escape_table_cell, row))} |" for row in _column_rows(dataset))
            yield ""
    yield from ("## Cells", "")
    for cell in documentation.cells:
        fence = "```" if "```" not in cell.code else "````"
        yield from (f"### {cell.name}", "", _cell_facts(cell), "", f"{fence}python", cell.code, fence, "")


def _notebook_facts(documentation: NotebookDocumentation) -> str:
    started = "" if documentation.started_at is None else f" of {documentation.started_at:%Y-%m-%d %H:%M} UTC"
    cells = format_count(len(documentation.cells), "cell")
    return f"From session {documentation.session_id}{started}: {cells}, {documentation.state.lower()}."


def _dataset_facts(dataset: DocumentedDataset) -> str:
    rows = "" if dataset.row_count is None else f", {format_count(dataset.row_count, 'row')}"
    return f"{dataset.name}: {format_count(len(dataset.columns), 'column')}{rows}."


def _column_rows(dataset: DocumentedDataset) -> list[tuple[str, str, str]]:
    return [
        (name, column_type or "", ", ".join(dataset.origins.get(name, ()))) for name, column_type in dataset.columns
    ]


def _cell_facts(cell: DocumentedCell) -> str:
    inputs = f"reads {', '.join(cell.inputs)}" if cell.inputs else "reads nothing"
    outputs = f"produces {', '.join(cell.outputs)}" if cell.outputs else "produces no DataFrame"
    return f"{cell.state.capitalize()}; {inputs}; {outputs}."


def _escape_table_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
