"""Split a payload into events, check them, and find their namespaces."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from clew.collector.file_import import guess_stream
from clew.eventlog.writer import LogEntry
from clew.events.decoding import Document, RejectedError
from clew.events.ids import to_single_line
from clew.events.streams import Stream, validate_event
from clew.server.auth import ForbiddenError, Principal


class _Entity(Struct):
    namespace: str = ""


class _Event(Struct):
    job: _Entity | None = None
    dataset: _Entity | None = None


_decode = msgspec.json.Decoder(_Event).decode


def event_namespaces(body: Document) -> list[str]:
    """Return the namespaces of the event's job and dataset; empty if it cannot be parsed.

    Inputs and outputs do not count: jobs use datasets of other namespaces.
    """
    try:
        event = _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return []
    return [entity.namespace for entity in (event.job, event.dataset) if entity is not None and entity.namespace]


_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_any = msgspec.json.Decoder(Raw).decode


class IngestResult(Struct, frozen=True):
    """Entry to store, or the error. A dead letter has both: it is stored with its error."""

    entry: LogEntry | None
    error: RejectedError | ForbiddenError | None = None

    @property
    def outcome(self) -> str:
        """Outcome as a metric label."""
        if self.entry is None:
            return "failed"
        return "stored" if self.error is None else "dead_letter"


def split_payload(payload: bytes) -> list[bytes]:
    """Split a payload into events: items of a list, lines of NDJSON, or the payload itself."""
    if payload.lstrip().startswith(b"["):
        try:
            return [bytes(item) for item in _decode_list(payload)]
        except (msgspec.DecodeError, RecursionError):
            return [payload]
    # A document on one line, as clients send it, is not parsed here.
    return (list(_split_lines(payload)) if b"\n" in payload else []) or [payload]


def check_event(stream: Stream, source: str, body: bytes, principal: Principal) -> IngestResult:
    """Check an event and the principal's access to its namespace.

    A runtime or DataFrame event that was sent to the endpoint of OpenLineage events goes to its own stream.
    """
    error = None
    try:
        validate_event(stream, body)
    except RejectedError as exc:
        if exc.reason.is_permanent:
            return IngestResult(None, exc)
        actual = guess_stream(body)
        if stream == Stream.OPENLINEAGE != actual:
            return check_event(actual, source, body, principal)
        error = exc
    if not principal.is_unrestricted:
        try:
            principal.check_namespaces(event_namespaces(body))
        except ForbiddenError as exc:
            return IngestResult(None, exc)
    line = to_single_line(body)
    return IngestResult(LogEntry(stream, source, line, is_json=True), error)


def _split_lines(payload: bytes) -> Iterator[bytes]:
    """Yield the lines if the payload is NDJSON with more than one document."""
    try:
        _decode_any(payload)
    except (msgspec.DecodeError, RecursionError):
        lines = [line for line in payload.splitlines() if line.strip()]
        if len(lines) > 1 and all(line.lstrip().startswith(b"{") for line in lines):
            yield from lines
