"""Events as they came, the newest first, and those that were rejected, each with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from deltalake import QueryBuilder
from deltalake.exceptions import TableNotFoundError
from msgspec import Struct

from clew.errors import UsageError
from clew.home import LakePlace
from clew.lake.storage import storage_at

# What a browser shows without trouble; a larger event is cut, and its size said.
MOST_CHARACTERS: Final = 200_000

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


class EventLine(Struct, frozen=True, rename="camel"):
    """An event in the list; `detail` says who sent it or, of a rejected one, what was wrong."""

    seq: int
    event_id: str
    received_at: datetime | None
    type: str | None
    job: str | None
    run: str | None
    detail: str | None


class EventList(Struct, frozen=True, rename="camel"):
    """Some of the events that were asked for; `older` is where to go on."""

    stream: str
    items: tuple[EventLine, ...]
    total: int
    older: int | None


class EventText(Struct, frozen=True):
    """An event as it came, as far as it is shown."""

    text: str
    size: int


class Wanted(Struct, frozen=True):
    """Which events to list."""

    stream: str = "lineage"
    text: str = ""
    type: str = ""
    run: str = ""
    before: int | None = None
    limit: int = 50


def event_list(lake: LakePlace, wanted: Wanted) -> EventList:
    """The newest events of a stream."""
    name, columns, _ = _stream(wanted.stream)
    inside = f"select seq, event_id, received_at, {columns} from events"  # noqa: S608
    where = " and ".join(_conditions(wanted)) or "true"
    place = "" if wanted.before is None else f" where seq < {int(wanted.before)}"
    found = f"select * from ({inside}) events where {where}"  # noqa: S608
    counted = _rows(lake, name, f"select count(*) as total from ({found}) found")  # noqa: S608
    rows = _rows(lake, name, f"select * from ({found}) found{place} order by seq desc limit {int(wanted.limit) + 1}")  # noqa: S608
    items = tuple(map(_line, rows[: wanted.limit]))
    older = items[-1].seq if len(rows) > wanted.limit else None
    return EventList(wanted.stream, items, counted[0]["total"] if counted else 0, older)


def event_text(lake: LakePlace, stream: str, seq: int) -> EventText:
    """One event, whole if it is not too long for a page."""
    name, _, body = _stream(stream)
    rows = _rows(lake, name, f"select {body} as body from events where seq = {int(seq)}")  # noqa: S608
    if not rows:
        raise UsageError(f"There is no event {seq} in {stream}.", hint="It may have been removed by its age.")
    text = rows[0]["body"]
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return EventText(text[:MOST_CHARACTERS], len(text))


def _stream(name: str) -> tuple[str, str, str]:
    if name not in _STREAMS:
        raise UsageError(f"There is no stream {name!r}.", hint=f"There are {', '.join(_STREAMS)}.")
    return _STREAMS[name]


def _conditions(wanted: Wanted) -> Iterator[str]:
    if wanted.text:
        yield f"strpos(lower(concat(coalesce(job, ''), ' ', coalesce(detail, ''))), {_quoted(wanted.text.lower())}) > 0"
    if wanted.type:
        yield f"event_type = {_quoted(wanted.type)}"
    if wanted.run:
        yield f"run = {_quoted(wanted.run)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _rows(lake: LakePlace, name: str, query: str) -> list[dict[str, Any]]:
    try:
        table = storage_at(lake).open_table(name)
    except TableNotFoundError:
        return []
    found = QueryBuilder().register("events", table).execute(query).read_all()
    return [dict(row) for row in found.to_struct_array().to_pylist()]


def _line(row: dict[str, Any]) -> EventLine:
    return EventLine(
        seq=row["seq"],
        event_id=row["event_id"],
        received_at=row["received_at"],
        type=row["event_type"],
        job=(row["job"] or "").strip() or None,
        run=row["run"],
        detail=row["detail"],
    )
