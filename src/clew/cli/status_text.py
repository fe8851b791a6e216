"""The pipeline's state as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rich.table import Table

from clew.cli.figures import counted, duration, filesize
from clew.lake.history import CommittedBatch, TableSize
from clew.pipeline.status import Rejected, Status


def status_lines(found: Status) -> Iterator[str]:
    """All but the tables, line by line."""
    at_work = "nobody is at work" if found.holder is None else f"at work: {found.holder}"
    yield f"Pipeline  {at_work}"
    yield f"Log       {_log(found)}"
    if found.streams_bytes:
        yield f"Streams   {filesize(found.streams_bytes)} that no run has read yet"
    yield f"Index     {_index(found)}"
    if found.without_facets:
        yield f"Facets    {counted(found.without_facets, 'event')} without them: run `clew pipeline backfill`"
    yield f"Rejected  {_rejected(found.rejected)}"
    yield from (f"          {one.source}: {one.reason}, {one.detail}" for one in found.rejected.last)


def batch_table(batches: list[CommittedBatch]) -> Table:
    """The last batches, the newest first."""
    table = _table("batch", "committed", "took", "events/s", "rows")
    for batch in batches:
        rows = ", ".join(f"{name} {count:,}" for name, count in batch.rows.items())
        took = "" if batch.seconds is None else duration(1000 * batch.seconds)
        pace = "" if batch.events_per_second is None else f"{batch.events_per_second:,.0f}"
        table.add_row(f"{batch.app}/{batch.number}", _moment(batch.at_ms), took, pace, rows)
    return table


def size_table(tables: list[TableSize]) -> Table:
    """Rows, files and size of each table."""
    table = _table("table", "rows", "files", "size")
    for column in table.columns[1:]:
        column.justify = "right"
    for one in tables:
        table.add_row(one.name, f"{one.rows:,}", f"{one.files:,}", filesize(one.bytes))
    return table


def _log(found: Status) -> str:
    log = found.log
    if log.position > log.end:
        return f"ends at {log.end:,}, before the position {log.position:,} that was read already: is it another log?"
    if not log.bytes:
        return f"all {filesize(log.end)} taken in"
    about = "about " if log.is_estimate else ""
    waiting = f"{about}{counted(log.events, 'event')} waiting ({filesize(log.bytes)})"
    return f"{waiting}, taken in up to {log.position:,} of {log.end:,}"


def _index(found: Status) -> str:
    if found.index is None or found.index.at is None:
        return "none yet: the next run builds it"
    return f"last written {found.index.at}, by batch {found.index.batch}"


def _rejected(rejected: Rejected) -> str:
    if not rejected.count:
        return "no events"
    since = rejected.count - (rejected.count if rejected.open is None else rejected.open)
    return counted(rejected.count, "event") + (f", {since:,} of them taken in since" if since else "")


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
