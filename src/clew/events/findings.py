"""All that can be said against events: whether they can be read, what breaks a schema, what could be better."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from clew.events.advice import RunPairs, advice
from clew.events.received import decode
from clew.events.rejection import RejectedError
from clew.events.spec import Spec
from clew.events.validation import faults, stream_of

_LONGEST = 200


class Finding(Struct, frozen=True):
    """Something to mend, with its place: `line` counts events. What holds for all events of a run has no line."""

    level: Literal["error", "advice"]
    rule: str
    file: str | None
    line: int | None
    path: str
    message: str


class Inspection:
    """Events held against the schemas, one after the other."""

    def __init__(self, spec: Spec) -> None:
        self.events: Counter[str] = Counter()
        self.valid = 0
        self._spec = spec
        self._runs = RunPairs()

    def findings(self, file: str, line: int, body: bytes) -> Iterator[Finding]:
        """What is to be said of one event."""
        found = list(self._findings(file, line, body))
        self.valid += not any(finding.level == "error" for finding in found)
        yield from found

    def run_findings(self) -> Iterator[Finding]:
        """What is to be said of runs, after all their events."""
        for rule, run, message in self._runs.advice():
            yield Finding("advice", rule, None, None, run, message)

    def _findings(self, file: str, line: int, body: bytes) -> Iterator[Finding]:
        event = _value(body)
        stream = stream_of(event) or "openlineage"
        self.events[stream] += 1
        try:
            decode(stream, body)
        except RejectedError as fault:
            yield Finding("error", f"rejected:{fault.reason}", file, line, "/", _clipped(fault.detail))
        if not isinstance(event, dict):
            return
        # Who writes the streams of a notebook says in which session; any other OpenLineage event need not.
        if stream != "openlineage" or "session_id" in event:
            for path, message in faults(event, stream):
                yield Finding("error", f"schema:{stream}", file, line, path, _clipped(message))
        if stream == "openlineage":
            yield from self._openlineage(file, line, event)

    def _openlineage(self, file: str, line: int, event: dict[str, Any]) -> Iterator[Finding]:
        for path, message in self._spec.faults(event):
            yield Finding("error", "spec", file, line, path, _clipped(message))
        for rule, path, message in advice(event):
            yield Finding("advice", rule, file, line, path, message)
        self._runs.note(event)


def _value(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _clipped(message: str) -> str:
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…"
