"""Tests of the merge rules: batches in any order, repeated or combined give the same index."""

from __future__ import annotations

import json
import sqlite3
from itertools import permutations
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.facet_blobs import index_facets

from clew.events.streams import decode_event
from clew.index.changes import ChangeSet
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter

TABLES = (
    "events",
    "runs",
    "jobs",
    "datasets",
    "renames",
    "symlinks",
    "dataset_aliases",
    "run_io",
    "reported_job_edges",
    "lineage_assertions",
    "job_dependency_assertions",
    "static_lineage",
    "edge_sets",
    "cell_executions",
    "operations",
    "facets",
)
RUNS = ("run-a", "run-b")

times = st.integers(0, 9).map(lambda minute: f"2026-01-01T10:0{minute}:00Z")
facets = st.dictionaries(
    st.sampled_from(["x", "y"]),
    st.one_of(st.integers(0, 3).map(lambda n: {"n": n}), st.just({"_deleted": True}), st.none()),
)


def lineage(run: str, kind: str | None, time: str, own_facets: dict[str, Any], column: str) -> dict[str, Any]:
    source = {"inputFields": [{"namespace": "n", "name": "i", "field": "x"}]}
    output = {"namespace": "n", "name": "o", "facets": {**own_facets, "columnLineage": {"fields": {column: source}}}}
    return {
        "eventTime": time,
        "eventType": kind,
        "run": {"runId": run, "facets": {**own_facets, "parent": {"run": {"runId": f"parent of {run}"}}}},
        "job": {"namespace": "n", "name": f"job of {run}", "facets": own_facets},
        "inputs": [{"namespace": "n", "name": "i", "inputFacets": own_facets}],
        "outputs": [output],
        "session_id": f"session of {run}",
    }


def cell(run: str, kind: str, time: str, cost: float) -> dict[str, Any]:
    context = {"session_id": "s", "execution_id": run, "timestamp": time, "cell_id": f"cell of {run}"}
    error = {"error_info": {"error_type": "E", "error_message": str(cost)}} if kind.endswith("error") else {}
    end = {} if kind.endswith("start") else {"duration_ms": cost, "end_memory_mb": cost}
    return {"event_type": kind, **context, "start_memory_mb": 1.5, **end, **error}


def operation(run: str, time: str, line: int | None) -> dict[str, Any]:
    context = {"session_id": "s", "execution_id": "e", "timestamp": time, "run_id": run}
    return {"event_type": "dataframe_lineage", **context, "line": line, "operation_code": f"line {line}"}


kinds = st.sampled_from(["START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER", None])
ends = st.sampled_from([f"cell_execution_{kind}" for kind in ("start", "end", "error")])
lineages = st.builds(lineage, st.sampled_from(RUNS), kinds, times, facets, st.sampled_from(["p", "q"]))
cells = st.builds(cell, st.sampled_from(RUNS), ends, times, st.sampled_from([1.0, 2.0]))
operations = st.builds(operation, st.sampled_from(RUNS), times, st.none() | st.integers(1, 3))
# Mostly of one stream: only events of one entity can conflict.
logs = st.one_of(
    *(
        st.lists(events, min_size=1, max_size=8)
        for events in (lineages, cells, operations, lineages | cells | operations)
    )
)


def extract_changes(numbered: list[tuple[int, dict[str, Any]]]) -> ChangeSet:
    extractor = ChangeExtractor()
    for seq, event in numbered:
        stream = {"dataframe_lineage": "dataframe", None: "openlineage"}.get(event.get("event_type"), "runtime")
        extractor.add(decode_event(stream, json.dumps(event).encode()), f"{seq:032x}", seq)
    # Serialize as between worker and driver.
    return msgspec.msgpack.decode(msgspec.msgpack.encode(extractor.changes()), type=ChangeSet)


def index_batches(index_writer: IndexWriter, batches: list[tuple[str, ChangeSet]]) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of an empty index after the batches."""
    database = index_writer._database
    for table in TABLES:
        database.execute(f"delete from {table}")
    database.execute("delete from meta where key != 'format'")
    index_writer._written_edge_sets.clear()
    for name, changes in batches:
        index_writer.apply(name, changes)
    return all_rows(index_writer)


def all_rows(index_writer: IndexWriter) -> dict[str, list[tuple[Any, ...]]]:
    database = index_writer._database
    rows = {table: sorted(database.execute(f"select * from {table}"), key=repr) for table in TABLES}
    rows["facets"] = sorted(tuple(row.values()) for row in index_facets(database))
    # The batch of an event depends on the order.
    rows["events"] = [(identity,) for identity, _ in rows["events"]]
    rows["progress"] = database.execute("select value from meta where key = 'indexed_seq'").fetchall()
    return rows


@pytest.mark.slow
@given(log=logs, data=st.data())
def test_order_repetition_and_size_of_batches_do_not_matter(
    sqlite_writer: IndexWriter, log: list[dict[str, Any]], data: st.DataObject
) -> None:
    numbered = list(enumerate(log))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(log)), max_size=3)))
    parts = [numbered[low:high] for low, high in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    batches = [(f"batch {number}", extract_changes(part)) for number, part in enumerate(parts)]
    expected = index_batches(sqlite_writer, [("all", extract_changes(numbered))])

    assert index_batches(sqlite_writer, batches) == expected
    assert index_batches(sqlite_writer, [("all", ChangeSet.concat(changes for _, changes in batches))]) == expected
    assert index_spilled(sqlite_writer, [changes for _, changes in batches]) == expected
    shuffled = data.draw(st.permutations(batches)) + data.draw(st.permutations(batches))
    assert index_batches(sqlite_writer, shuffled) == expected


def index_spilled(index_writer: IndexWriter, parts: list[ChangeSet]) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows after one batch whose changes, but not its event ids, were spilled."""
    index_batches(index_writer, [])
    events = [event for part in parts for event in part.events]
    index_writer.apply("all", ChangeSet(events=events), [msgspec.structs.replace(part, events=[]) for part in parts])
    return all_rows(index_writer)


NINE, TEN = "2026-01-01T09:00:00Z", "2026-01-01T10:00:00Z"
CONFLICTING_EVENTS = {
    "run ends twice": [
        lineage("r", "START", TEN, {"x": {"n": 1}}, "p"),
        lineage("r", "COMPLETE", TEN, {"x": {"n": 2}}, "q"),
        lineage("r", "FAIL", NINE, {"x": {"_deleted": True}}, "p"),
        lineage("r", "START", NINE, {}, "p"),
    ],
    "cell ends twice": [
        cell("r", "cell_execution_error", TEN, 1.0),
        cell("r", "cell_execution_end", NINE, 2.0),
        cell("r", "cell_execution_start", NINE, 0.0),
    ],
    "operation repeated with fewer fields": [
        operation("r", TEN, 1),
        operation("r", NINE, 2),
        operation("r", TEN, None),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("log", CONFLICTING_EVENTS.values(), ids=CONFLICTING_EVENTS)
def test_conflicting_events_merge_equally_in_every_order(log: list[dict[str, Any]], index_writer: IndexWriter) -> None:
    batches = [(str(seq), extract_changes([(seq, event)])) for seq, event in enumerate(log)]
    expected = index_batches(index_writer, [("all", extract_changes(list(enumerate(log))))])
    for order in permutations(batches):
        assert index_batches(index_writer, list(order)) == expected


@pytest.mark.parametrize(
    ("kinds", "state", "has_ended"),
    [
        (["START"], "RUNNING", False),
        (["START", "COMPLETE"], "COMPLETED", True),
        (["COMPLETE", "START"], "COMPLETED", True),
        (["FAIL", "RUNNING", "OTHER"], "FAILED", True),
        (["FAIL", "COMPLETE"], "COMPLETED", True),
        (["COMPLETE"], "COMPLETED", True),
        ([None], "NEW", False),
        (["start", "complete"], "COMPLETED", True),
        (["ABORT", "START"], "ABORTED", True),
    ],
)
def test_terminal_state_is_sticky(
    kinds: list[str | None], state: str, has_ended: bool, index_writer: IndexWriter
) -> None:
    log = [lineage("r", kind, f"2026-01-01T10:0{n}:00Z", {}, "p") for n, kind in enumerate(kinds)]
    index_batches(index_writer, [(str(seq), extract_changes([(seq, event)])) for seq, event in enumerate(log)])
    row = index_writer._database.execute("select state, ended_at is not null from runs where run_uuid = 'r'").fetchone()
    assert row == (state, has_ended)


@pytest.mark.parametrize(
    ("kinds", "state"),
    [
        (["start"], "running"),
        (["start", "end"], "completed"),
        (["end", "start"], "completed"),
        (["start", "error"], "failed"),
        (["error", "end", "start"], "failed"),
    ],
)
def test_finished_cell_does_not_return_to_running(kinds: list[str], state: str, index_writer: IndexWriter) -> None:
    log = [cell("r", f"cell_execution_{kind}", "2026-01-01T10:00:00Z", 1.0) for kind in kinds]
    rows = index_batches(index_writer, [(str(seq), extract_changes([(seq, event)])) for seq, event in enumerate(log)])
    assert len(rows["cell_executions"]) == 1
    assert state in rows["cell_executions"][0]


def test_older_batch_does_not_decrease_indexed_seq(index_writer: IndexWriter) -> None:
    late, early = (
        extract_changes([(900, operation("r", "2026-01-01", 1))]),
        extract_changes([(95, operation("q", "2026-01-01", 1))]),
    )
    assert index_batches(index_writer, [("1", late), ("0", early)])["progress"] == [("900",)]


def test_failed_batch_is_rolled_back(index_writer: IndexWriter) -> None:
    changes = extract_changes([(0, lineage("r", "START", "2026-01-01", {}, "p"))])
    changes.facets[0].kind = None  # type: ignore[assignment]
    index_batches(index_writer, [])
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError), match=r"(?i)not.null"):
        index_writer.apply("0", changes)
    assert index_writer.event_count == 0
    assert index_writer._database.execute("select * from runs").fetchall() == []


def test_existing_event_ids_excludes_the_own_batch(index_writer: IndexWriter) -> None:
    index_batches(index_writer, [("0", ChangeSet(events=[(n, f"{n:032x}") for n in range(1200)]))])
    event_ids = [f"{n:032x}" for n in range(0, 2400, 2)]
    assert index_writer.existing_event_ids(event_ids, "0") == set()
    assert index_writer.existing_event_ids(event_ids, "1") == {f"{n:032x}" for n in range(0, 1200, 2)}
    assert index_writer.event_count == 1200


def test_existing_event_ids_includes_events_of_pruned_batches(
    index_writer: IndexWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.index.writer._MAX_BATCHES", 2)
    events = [f"{n:032x}" for n in range(5)]
    index_batches(index_writer, [(f"app/{n}", ChangeSet(events=[(n, event)])) for n, event in enumerate(events)])
    assert set(index_writer._database.execute("select name from batches")) == {("app/3",), ("app/4",)}
    assert index_writer.existing_event_ids(events, "app/5") == set(events)
    assert index_writer.existing_event_ids(events, "app/4") == set(events[:4])
