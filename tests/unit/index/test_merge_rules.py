"""The merge is the upsert: batches may come in any order, twice, or as one, and the index is the same."""

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


def lineage(run: str, kind: str | None, time: str, found: dict[str, Any], column: str) -> dict[str, Any]:
    source = {"inputFields": [{"namespace": "n", "name": "i", "field": "x"}]}
    output = {"namespace": "n", "name": "o", "facets": {**found, "columnLineage": {"fields": {column: source}}}}
    return {
        "eventTime": time,
        "eventType": kind,
        "run": {"runId": run, "facets": {**found, "parent": {"run": {"runId": f"parent of {run}"}}}},
        "job": {"namespace": "n", "name": f"job of {run}", "facets": found},
        "inputs": [{"namespace": "n", "name": "i", "inputFacets": found}],
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
# Mostly of one kind: only events of one thing can be at odds.
logs = st.one_of(
    *(
        st.lists(events, min_size=1, max_size=8)
        for events in (lineages, cells, operations, lineages | cells | operations)
    )
)


def observed(numbered: list[tuple[int, dict[str, Any]]]) -> ChangeSet:
    observer = ChangeExtractor()
    for seq, event in numbered:
        stream = {"dataframe_lineage": "dataframe", None: "openlineage"}.get(event.get("event_type"), "runtime")
        observer.add(decode_event(stream, json.dumps(event).encode()), f"{seq:032x}", seq)
    # As they travel from a worker to the driver.
    return msgspec.msgpack.decode(msgspec.msgpack.encode(observer.changes()), type=ChangeSet)


def tables(sink: IndexWriter, batches: list[tuple[str, ChangeSet]]) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of an index that was empty before the batches came."""
    database = sink._database
    for table in TABLES:
        database.execute(f"delete from {table}")
    database.execute("delete from meta where key != 'format'")
    sink._written_edge_sets.clear()
    for name, changes in batches:
        sink.apply(name, changes)
    return all_rows(sink)


def all_rows(sink: IndexWriter) -> dict[str, list[tuple[Any, ...]]]:
    database = sink._database
    found = {table: sorted(database.execute(f"select * from {table}"), key=repr) for table in TABLES}
    found["facets"] = sorted(tuple(row.values()) for row in index_facets(database))
    # Which batch brought an event depends on the order, and may.
    found["events"] = [(identity,) for identity, _ in found["events"]]
    found["progress"] = database.execute("select value from meta where key = 'indexed_seq'").fetchall()
    return found


@pytest.mark.slow
@given(log=logs, data=st.data())
def test_order_repetition_and_size_of_batches_do_not_matter(
    file_sink: IndexWriter, log: list[dict[str, Any]], data: st.DataObject
) -> None:
    numbered = list(enumerate(log))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(log)), max_size=3)))
    parts = [numbered[low:high] for low, high in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    batches = [(f"batch {number}", observed(part)) for number, part in enumerate(parts)]
    whole = tables(file_sink, [("all", observed(numbered))])

    assert tables(file_sink, batches) == whole
    assert tables(file_sink, [("all", ChangeSet.concat(changes for _, changes in batches))]) == whole
    assert tables_of_aside(file_sink, [changes for _, changes in batches]) == whole
    shuffled = data.draw(st.permutations(batches)) + data.draw(st.permutations(batches))
    assert tables(file_sink, shuffled) == whole


def tables_of_aside(sink: IndexWriter, parts: list[ChangeSet]) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of an index to which one batch came in parts, of which only who they are of was known at once."""
    tables(sink, [])
    events = [event for part in parts for event in part.events]
    sink.apply("all", ChangeSet(events=events), [msgspec.structs.replace(part, events=[]) for part in parts])
    return all_rows(sink)


NINE, TEN = "2026-01-01T09:00:00Z", "2026-01-01T10:00:00Z"
AT_ODDS = {
    "a run that ends twice": [
        lineage("r", "START", TEN, {"x": {"n": 1}}, "p"),
        lineage("r", "COMPLETE", TEN, {"x": {"n": 2}}, "q"),
        lineage("r", "FAIL", NINE, {"x": {"_deleted": True}}, "p"),
        lineage("r", "START", NINE, {}, "p"),
    ],
    "a cell that ends twice": [
        cell("r", "cell_execution_error", TEN, 1.0),
        cell("r", "cell_execution_end", NINE, 2.0),
        cell("r", "cell_execution_start", NINE, 0.0),
    ],
    "an operation told with less": [operation("r", TEN, 1), operation("r", NINE, 2), operation("r", TEN, None)],
}


@pytest.mark.slow
@pytest.mark.parametrize("log", AT_ODDS.values(), ids=AT_ODDS)
def test_events_at_odds_are_settled_alike_in_every_order(log: list[dict[str, Any]], sink: IndexWriter) -> None:
    batches = [(str(seq), observed([(seq, event)])) for seq, event in enumerate(log)]
    whole = tables(sink, [("all", observed(list(enumerate(log))))])
    for order in permutations(batches):
        assert tables(sink, list(order)) == whole


@pytest.mark.parametrize(
    ("kinds", "state", "ended"),
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
def test_a_terminal_state_is_sticky(kinds: list[str | None], state: str, ended: bool, sink: IndexWriter) -> None:
    log = [lineage("r", kind, f"2026-01-01T10:0{n}:00Z", {}, "p") for n, kind in enumerate(kinds)]
    tables(sink, [(str(seq), observed([(seq, event)])) for seq, event in enumerate(log)])
    found = sink._database.execute("select state, ended_at is not null from runs where run_uuid = 'r'").fetchone()
    assert found == (state, ended)


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
def test_a_cell_that_has_ended_does_not_run_again(kinds: list[str], state: str, sink: IndexWriter) -> None:
    log = [cell("r", f"cell_execution_{kind}", "2026-01-01T10:00:00Z", 1.0) for kind in kinds]
    found = tables(sink, [(str(seq), observed([(seq, event)])) for seq, event in enumerate(log)])
    assert len(found["cell_executions"]) == 1
    assert state in found["cell_executions"][0]


def test_an_older_batch_does_not_turn_progress_back(sink: IndexWriter) -> None:
    late, early = observed([(900, operation("r", "2026-01-01", 1))]), observed([(95, operation("q", "2026-01-01", 1))])
    assert tables(sink, [("1", late), ("0", early)])["progress"] == [("900",)]


def test_what_fails_half_way_leaves_nothing(sink: IndexWriter) -> None:
    changes = observed([(0, lineage("r", "START", "2026-01-01", {}, "p"))])
    changes.facets[0].kind = None  # type: ignore[assignment]
    tables(sink, [])
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError), match=r"(?i)not.null"):
        sink.apply("0", changes)
    assert sink.event_count == 0
    assert sink._database.execute("select * from runs").fetchall() == []


def test_known_are_events_of_other_batches(sink: IndexWriter) -> None:
    tables(sink, [("0", ChangeSet(events=[(n, f"{n:032x}") for n in range(1200)]))])
    asked = [f"{n:032x}" for n in range(0, 2400, 2)]
    assert sink.existing_event_ids(asked, "0") == set()
    assert sink.existing_event_ids(asked, "1") == {f"{n:032x}" for n in range(0, 1200, 2)}
    assert sink.event_count == 1200


def test_events_of_a_batch_are_known_when_its_name_is_forgotten(
    sink: IndexWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.index.writer._MAX_BATCHES", 2)
    events = [f"{n:032x}" for n in range(5)]
    tables(sink, [(f"app/{n}", ChangeSet(events=[(n, event)])) for n, event in enumerate(events)])
    assert set(sink._database.execute("select name from batches")) == {("app/3",), ("app/4",)}
    assert sink.existing_event_ids(events, "app/5") == set(events)
    assert sink.existing_event_ids(events, "app/4") == set(events[:4])
