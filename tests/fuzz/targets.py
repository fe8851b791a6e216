"""Functions under fuzzing. Each takes any bytes, and raises only if a rule of the code is broken."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from clew.capture.backends.sql_lineage import UnsupportedSyntaxError, parse_query
from clew.errors import UsageError
from clew.eventlog.segments import (
    decode_record,
    end_position,
    is_damaged,
    parse_record_fast,
    read_event_ids,
    read_lines,
    split_damaged,
    split_ranges,
)
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.decoding import RejectedError
from clew.events.ids import event_id
from clew.events.streams import Stream, decode_event, validate_event
from clew.index.changes import ChangeSet
from clew.index.extract.extractor import ChangeExtractor
from clew.lake.event_rows import EventTableBuilder, ReceivedEvent
from clew.query.graph.nodes import Node
from clew.query.pages.graph import format_node_id, parse_node_id

_BYTES_PER_RANGE = 50
_RECEIVED_AT = datetime(2026, 1, 1, tzinfo=UTC)
_ONE_ROW_EACH = {"lineage_events", "runtime_events", "dataframe_events", "rejected_events"}


def check_decoder(data: bytes) -> None:
    """Decode an event of each stream; intake and pipeline agree on whether it is valid."""
    for stream in Stream:
        try:
            decode_event(stream, data, "2026-01-01T00:00:00+00:00")
        except RejectedError:
            continue
        if stream == Stream.OPENLINEAGE:
            assert _rejection(stream, data) in {None, "reserved_name"}


def _rejection(stream: Stream, data: bytes) -> str | None:
    """Return why intake rejects an event."""
    try:
        validate_event(stream, data)
    except RejectedError as error:
        return error.reason
    return None


def check_merge(data: bytes) -> None:
    """Extract the rows of lake and index from an event; a repeated event changes nothing."""
    try:
        event = decode_event(Stream.OPENLINEAGE, data)
    except RejectedError:
        return
    identity = event_id(data)
    once, twice = ChangeExtractor(), ChangeExtractor()
    once.add(event, identity, 0)
    for _ in range(2):
        twice.add(event, identity, 0)
    assert _distinct_rows(once.changes()) == _distinct_rows(twice.changes())


def _distinct_rows(changes: ChangeSet) -> dict[str, object]:
    fields = {name: getattr(changes, name) for name in changes.__struct_fields__}
    return {name: set(map(repr, rows)) if isinstance(rows, list) else rows for name, rows in fields.items()}


def check_node_ids(data: bytes) -> None:
    """Parse an id; a parsed id is formatted and parsed to the same node."""
    text = data.decode(errors="surrogateescape")
    try:
        node = parse_node_id(text)
    except UsageError:
        node = Node("dataset", text.replace("\udcff", ""), text or "name")
    if node.name.isprintable() and node.namespace.isprintable():
        assert parse_node_id(format_node_id(node)) == node


def check_log_reader(data: bytes) -> None:
    """Read a log with any bytes: all ranges together have each byte once, and intact records are found."""
    event = b'{"intact":true}'
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with LogWriter(folder) as log:
            log.append([IncomingEvent(Stream.OPENLINEAGE, "fuzz", event)])
        (segment,) = folder.glob("*.ndjson")
        with segment.open("ab") as file:
            file.write(data + b"\n" + segment.read_bytes())
        end = end_position(folder)
        ranges = split_ranges(folder, 0, end, _BYTES_PER_RANGE)
        lines = [line for range_ in ranges for line in read_lines(range_)]
        assert len({position for position, _ in lines}) == len(lines)
        for _, line in lines:
            fast = parse_record_fast(line)
            if fast is not None:
                assert fast.body == decode_record(line).body
            if is_damaged(line):
                list(split_damaged(line))
        ids = [identity for range_ in ranges for identity in read_event_ids(range_)]
        assert ids.count(event_id(event)) >= 2


def check_sql(data: bytes) -> None:
    """Compute the lineage of any SQL; only the errors that capture handles are raised."""
    from sqlglot.errors import SqlglotError

    try:
        parse_query(data.decode(errors="replace"), {"t": ["a", "b"], "s": ["a", "c"]})
    except (UnsupportedSyntaxError, SqlglotError, RecursionError):
        return


def check_rows(data: bytes) -> None:
    """Build the rows of the tables for an event of each stream: one row, with the bytes that were received."""
    received = ReceivedEvent(event_id(data), 0, _RECEIVED_AT, "fuzz", data)
    for stream in Stream:
        builder = EventTableBuilder()
        try:
            builder.add(decode_event(stream, data, _RECEIVED_AT.isoformat()), received)
        except RejectedError as error:
            builder.reject(error, stream, received)
        batches = builder.drain()
        (rows,) = (batch for name, batch in batches.items() if name in _ONE_ROW_EACH)
        assert rows.num_rows == 1


TARGETS: dict[str, Callable[[bytes], None]] = {
    "decoder": check_decoder,
    "merge": check_merge,
    "node_ids": check_node_ids,
    "log_reader": check_log_reader,
    "rows": check_rows,
    "sql": check_sql,
}
