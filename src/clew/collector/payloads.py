"""Request payloads: one event, a JSON list or NDJSON, with the result of each event."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from clew.collector.log import LogEntry
from clew.collector.namespaces import event_namespaces
from clew.events.identity import to_single_line
from clew.events.received import validate_event
from clew.events.rejection import RejectedError
from clew.events.stream import Stream
from clew.serving.grants import ForbiddenError, Principal

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
    """Check an event and the principal's access to its namespace."""
    error = None
    try:
        validate_event(stream, body)
    except RejectedError as exc:
        if exc.reason.is_permanent:
            return IngestResult(None, exc)
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
