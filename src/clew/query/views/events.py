"""Events page: stored and rejected events, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from deltalake import QueryBuilder
from deltalake.exceptions import TableNotFoundError
from msgspec import Struct

from clew.errors import UsageError
from clew.home import LakeLocation
from clew.lake.storage import open_storage

# Longer events are truncated, so that a browser can show them.
MAX_CHARACTERS: Final = 200_000

_NOTEBOOK = """event_type, concat(coalesce(notebook, ''), ' ', coalesce(cell_name, cell_id, '')) as job,
session_id as run, null as detail"""
# The table of each stream, and its columns under common names.
_STREAMS: Final = {
    "lineage": (
        "lineage_events",
        """event_type, concat(coalesce(job_namespace, dataset_namespace, ''), ' ',
        coalesce(job_name, dataset_name, '')) as job, run_uuid as run, producer as detail""",
        "event",
    ),
    "runtime": ("runtime_events", _NOTEBOOK, "event"),
    "dataframe": ("dataframe_events", _NOTEBOOK, "event"),
    "rejected": ("rejected_events", "reason as event_type, source as job, null as run, detail", "body"),
}


class EventListItem(Struct, frozen=True, rename="camel"):
    """An event in a list; `detail` is the producer or, for a rejected event, the error."""

    seq: int
    event_id: str
    received_at: datetime | None
    type: str | None
    job: str | None
    run: str | None
    detail: str | None


class EventList(Struct, frozen=True, rename="camel"):
    """A page of events; pass `next_cursor` as `before` to get the next page."""

    stream: str
    items: tuple[EventListItem, ...]
    total: int
    next_cursor: int | None


class EventText(Struct, frozen=True):
    """The text of an event, possibly truncated, and its full size in characters."""

    text: str
    size: int


class EventFilter(Struct, frozen=True):
    """Filter and page of an event list."""

    stream: str = "lineage"
    text: str = ""
    type: str = ""
    run: str = ""
    before: int | None = None
    limit: int = 50


def query_events(lake: LakeLocation, event_filter: EventFilter) -> EventList:
    """Query the newest events of a stream."""
    name, columns, _ = _stream(event_filter.stream)
    source = f"select seq, event_id, received_at, {columns} from events"  # noqa: S608
    where = " and ".join(_conditions(event_filter)) or "true"
    page = "" if event_filter.before is None else f" where seq < {int(event_filter.before)}"
    filtered = f"select * from ({source}) events where {where}"  # noqa: S608
    counts = _rows(lake, name, f"select count(*) as total from ({filtered}) filtered")  # noqa: S608
    limit = int(event_filter.limit) + 1
    rows = _rows(lake, name, f"select * from ({filtered}) filtered{page} order by seq desc limit {limit}")  # noqa: S608
    items = tuple(map(_to_item, rows[: event_filter.limit]))
    next_cursor = items[-1].seq if len(rows) > event_filter.limit else None
    return EventList(event_filter.stream, items, counts[0]["total"] if counts else 0, next_cursor)


def read_event(lake: LakeLocation, stream: str, seq: int) -> EventText:
    """Read an event, truncated to `MAX_CHARACTERS`."""
    name, _, body = _stream(stream)
    rows = _rows(lake, name, f"select {body} as body from events where seq = {int(seq)}")  # noqa: S608
    if not rows:
        raise UsageError(f"Event {seq} does not exist in {stream}.", hint="It may have expired.")
    text = rows[0]["body"]
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return EventText(text[:MAX_CHARACTERS], len(text))


def _stream(name: str) -> tuple[str, str, str]:
    if name not in _STREAMS:
        raise UsageError(f"Unknown stream {name!r}.", hint=f"Streams: {', '.join(_STREAMS)}.")
    return _STREAMS[name]


def _conditions(event_filter: EventFilter) -> Iterator[str]:
    if event_filter.text:
        text = _quote(event_filter.text.lower())
        yield f"strpos(lower(concat(coalesce(job, ''), ' ', coalesce(detail, ''))), {text}) > 0"
    if event_filter.type:
        yield f"event_type = {_quote(event_filter.type)}"
    if event_filter.run:
        yield f"run = {_quote(event_filter.run)}"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _rows(lake: LakeLocation, name: str, query: str) -> list[dict[str, Any]]:
    try:
        table = open_storage(lake).open_table(name)
    except TableNotFoundError:
        return []
    batches = QueryBuilder().register("events", table).execute(query).read_all()
    return [dict(row) for row in batches.to_struct_array().to_pylist()]


def _to_item(row: dict[str, Any]) -> EventListItem:
    return EventListItem(
        seq=row["seq"],
        event_id=row["event_id"],
        received_at=row["received_at"],
        type=row["event_type"],
        job=(row["job"] or "").strip() or None,
        run=row["run"],
        detail=row["detail"],
    )
