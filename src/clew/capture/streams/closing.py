"""Closing sessions from outside: marimo kills its kernels, so whoever launched them writes the end they could not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from clew.capture.streams.facets import error_message
from clew.capture.streams.files import LINEAGE

_ENDS = ("COMPLETE", "FAIL", "ABORT")


@dataclass
class _OpenSession:
    start: dict[str, Any]
    cells: int = 0
    failures: int = 0
    unfinished: int = 0
    last_time: str = ""
    is_ended: bool = False


def close_sessions(folder: Path) -> int:
    """Write the end of every session in `folder` that has none; how many that were."""
    sessions: dict[str, _OpenSession] = {}
    for event in _events(folder / LINEAGE):
        _account(sessions, event)
    ends = [_end_of(session) for session in sessions.values() if not session.is_ended]
    if ends:
        with (folder / LINEAGE).open("ab") as file:
            file.write(b"".join(msgspec.json.encode(end) + b"\n" for end in ends))
    return len(ends)


def _events(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            try:
                yield msgspec.json.decode(line)
            except msgspec.DecodeError:
                # The last line of a kernel that was killed while it wrote.
                continue


def _account(sessions: dict[str, _OpenSession], event: dict[str, Any]) -> None:
    kind = event["job"].get("facets", {}).get("jobType", {}).get("jobType")
    if kind == "NOTEBOOK" and event["eventType"] == "START":
        sessions.setdefault(event["session_id"], _OpenSession(event))
    session = sessions.get(event["session_id"])
    if session is None:
        return
    session.last_time = max(session.last_time, event["eventTime"])
    if kind == "NOTEBOOK":
        session.is_ended = session.is_ended or event["eventType"] in _ENDS
    elif kind == "CELL":
        started = event["eventType"] == "START"
        session.cells += started
        session.unfinished += 1 if started else -1
        session.failures += event["eventType"] == "FAIL"


def _end_of(session: _OpenSession) -> dict[str, Any]:
    """ABORT if a cell never ended, FAIL if one failed, else COMPLETE."""
    kind = "ABORT" if session.unfinished > 0 else "FAIL" if session.failures else "COMPLETE"
    facets = dict(session.start["run"]["facets"])
    if kind == "FAIL":
        facets["errorMessage"] = error_message(f"{session.failures} of {session.cells} cells ended in error")
    run = {"runId": session.start["run"]["runId"], "facets": facets}
    return {
        **session.start,
        "eventType": kind,
        "eventTime": session.last_time,
        "run": run,
        "emitted_at": session.last_time,
    }
