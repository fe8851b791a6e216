"""What a request carries: one event, a list of events, or events line by line; each with what is to be said of it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from clew.collector.log import Entry
from clew.collector.namespaces import namespaces_of
from clew.events.identity import one_line
from clew.events.received import require_event
from clew.events.rejection import RejectedError
from clew.events.stream import Stream
from clew.serving.grants import Grant, NotAllowedError

_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_any = msgspec.json.Decoder(Raw).decode


class Taken(Struct, frozen=True):
    """An event of a request: what to keep of it, or why it cannot be kept; a dead letter is kept, with a flaw."""

    entry: Entry | None
    flaw: RejectedError | NotAllowedError | None = None

    @property
    def outcome(self) -> str:
        """What became of it, in a word."""
        if self.entry is None:
            return "refused"
        return "stored" if self.flaw is None else "dead_letter"


def bodies_in(payload: bytes) -> list[bytes]:
    """The events of a payload, as they came: those of a list, those of lines, or the one that it is."""
    if payload.lstrip().startswith(b"["):
        try:
            return [bytes(item) for item in _decode_list(payload)]
        except (msgspec.DecodeError, RecursionError):
            return [payload]
    # A document on one line, as clients send it, is looked at once.
    return (list(_lines(payload)) if b"\n" in payload else []) or [payload]


def taken(stream: Stream, source: str, body: bytes, grant: Grant) -> Taken:
    """Look at an event of someone who has this grant."""
    flaw = None
    try:
        require_event(stream, body)
    except RejectedError as fault:
        if fault.reason.is_final:
            return Taken(None, fault)
        flaw = fault
    if not grant.is_everywhere:
        try:
            grant.require_namespaces(namespaces_of(body))
        except NotAllowedError as refusal:
            return Taken(None, refusal)
    line = one_line(body)
    return Taken(Entry(stream, source, line, is_json=True), flaw)


def _lines(payload: bytes) -> Iterator[bytes]:
    """The lines of a payload if it is more than one document and each line is one; else nothing."""
    try:
        _decode_any(payload)
    except (msgspec.DecodeError, RecursionError):
        lines = [line for line in payload.splitlines() if line.strip()]
        if len(lines) > 1 and all(line.lstrip().startswith(b"{") for line in lines):
            yield from lines
