"""Render the pipeline status as text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rich.table import Table

from clew.cli.figures import format_bytes, format_count, format_duration
from clew.lake.history import CommittedBatch, TableSize
from clew.pipeline.status import PipelineStatus, RejectionSummary


def status_lines(status: PipelineStatus) -> Iterator[str]:
    """Render everything except the tables."""
    yield "Pipeline  not running" if status.locked_by is None else f"Pipeline  running ({status.locked_by})"
    yield f"Log       {_log_line(status)}"
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
    table = _new_table("batch", "committed", "duration", "events/s", "rows")
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
    table = _new_table("table", "rows", "files", "size")
    for column in table.columns[1:]:
        column.justify = "right"
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


def _index_line(status: PipelineStatus) -> str:
    if status.index is None or status.index.at is None:
        return "none yet; the next run builds it"
    return f"last written {status.index.at}, by batch {status.index.batch}"


def _rejected_line(rejected: RejectionSummary) -> str:
    if not rejected.count:
        return "no events"
    resolved = rejected.count - (rejected.count if rejected.unresolved is None else rejected.unresolved)
    return format_count(rejected.count, "event") + (f", {resolved:,} of them ingested since" if resolved else "")


def _format_timestamp(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def _new_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
