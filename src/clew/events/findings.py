"""Validation of events: decoding, JSON Schemas and lint."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from clew.events.advice import RunPairingCheck, lint_event
from clew.events.received import decode_event
from clew.events.rejection import RejectedError
from clew.events.spec import OpenLineageSpec
from clew.events.validation import detect_stream, schema_violations

_MAX_MESSAGE_LENGTH = 200


class Issue(Struct, frozen=True):
    """An error or a lint warning with its position: `line` counts events. Warnings about a whole run have no line."""

    level: Literal["error", "warning"]
    rule: str
    file: str | None
    line: int | None
    path: str
    message: str


class EventValidator:
    """Validate events one after the other."""

    def __init__(self, spec: OpenLineageSpec) -> None:
        self.events: Counter[str] = Counter()
        self.valid = 0
        self._spec = spec
        self._runs = RunPairingCheck()

    def validate(self, file: str, line: int, body: bytes) -> Iterator[Issue]:
        """Yield the issues of one event."""
        issues = list(self._issues(file, line, body))
        self.valid += not any(issue.level == "error" for issue in issues)
        yield from issues

    def check_runs(self) -> Iterator[Issue]:
        """Yield the warnings about runs; call it after all events."""
        for rule, run, message in self._runs.warnings():
            yield Issue("warning", rule, None, None, run, message)

    def _issues(self, file: str, line: int, body: bytes) -> Iterator[Issue]:
        event = _decode_json(body)
        stream = detect_stream(event) or "openlineage"
        self.events[stream] += 1
        try:
            decode_event(stream, body)
        except RejectedError as error:
            yield Issue("error", f"rejected:{error.reason}", file, line, "/", _truncate(error.detail))
        if not isinstance(event, dict):
            return
        # Events of notebook streams have a session id; other OpenLineage events need none.
        if stream != "openlineage" or "session_id" in event:
            for path, message in schema_violations(event, stream):
                yield Issue("error", f"schema:{stream}", file, line, path, _truncate(message))
        if stream == "openlineage":
            yield from self._openlineage_issues(file, line, event)

    def _openlineage_issues(self, file: str, line: int, event: dict[str, Any]) -> Iterator[Issue]:
        for path, message in self._spec.violations(event):
            yield Issue("error", "spec", file, line, path, _truncate(message))
        for rule, path, message in lint_event(event):
            yield Issue("warning", rule, file, line, path, message)
        self._runs.add(event)


def _decode_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _truncate(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE_LENGTH else f"{message[: _MAX_MESSAGE_LENGTH - 1]}…"
