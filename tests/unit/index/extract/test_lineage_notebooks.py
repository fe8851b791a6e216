"""Tests of the states of notebook cells without an end event: running or lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.data_dir import IndexLocation
from clew.events.streams import decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter


def cell(kind: str, execution: str, second: int, session: str = "s") -> dict[str, Any]:
    context = {"session_id": session, "execution_id": execution, "timestamp": f"2026-01-01T10:00:{second:02}Z"}
    return {"event_type": f"cell_execution_{kind}", **context}


def session_run(kind: str, session: str = "s", parent: str | None = None) -> dict[str, Any]:
    facets = {"parent": {"run": {"runId": parent}}} if parent else {}
    run = {"runId": f"run of {session}", "facets": facets}
    job = {"namespace": "marimo", "name": "book"}
    return {"eventTime": "2026-01-01T10:00:00Z", "eventType": kind, "run": run, "job": job, "session_id": session}


@pytest.mark.parametrize(
    ("log", "states"),
    [
        ([cell("start", "a", 1)], {"a": "running"}),
        ([cell("start", "a", 1), session_run("START")], {"a": "running"}),
        ([cell("start", "a", 1), session_run("COMPLETE")], {"a": "lost"}),
        ([session_run("ABORT"), cell("start", "a", 1)], {"a": "lost"}),
        ([cell("start", "a", 1), session_run("COMPLETE", parent="p")], {"a": "running"}),
        ([cell("start", "a", 1), session_run("COMPLETE", session="t")], {"a": "running"}),
        ([cell("start", "a", 1), cell("end", "a", 2), session_run("FAIL")], {"a": "completed"}),
        ([cell("start", "b", 2), cell("start", "a", 1)], {"a": "lost", "b": "running"}),
        ([cell("start", "b", 1), cell("start", "a", 1)], {"a": "running", "b": "running"}),
        ([cell("start", "b", 2, session="t"), cell("start", "a", 1)], {"a": "running"}),
        ([cell("start", "b", 2), cell("start", "a", 1), cell("error", "a", 3)], {"a": "failed", "b": "running"}),
    ],
)
def test_unfinished_cell_is_lost_after_session_end_or_a_later_cell(
    log: list[dict[str, Any]], states: dict[str, str], index_location: IndexLocation
) -> None:
    extractor = ChangeExtractor()
    for seq, event in enumerate(log):
        stream = "runtime" if "event_type" in event else "openlineage"
        extractor.add(decode_event(stream, json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexWriter(index_location) as index_writer:
        index_writer.apply("test/0", extractor.changes())
    with IndexReader(index_location) as reader:
        assert {row["execution_id"]: row["state"] for row in reader.cells("s")} == states
