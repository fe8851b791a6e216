"""Events as rows: every facet is there, byte for byte, and nothing is lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from clew.collector.file_import import guess_stream
from clew.events.decoding import RejectedError
from clew.events.ids import event_id, to_single_line
from clew.events.openlineage import Event
from clew.events.streams import decode_event
from clew.lake.event_rows import EventTableBuilder, ReceivedEvent
from clew.lake.schemas import EVENT_TABLES

ARRIVED = datetime(2026, 1, 2, tzinfo=UTC)
FACET_TABLES = ("run_facets", "job_facets", "dataset_facets")


def rows_of(*bodies: bytes, stream: str | None = None) -> dict[str, list[dict[str, Any]]]:
    rows = EventTableBuilder()
    for place, body in enumerate(bodies):
        arrival = ReceivedEvent(event_id(body), 10 * place, ARRIVED, "test", body)
        kind = stream or guess_stream(body)
        try:
            rows.add(decode_event(kind, body), arrival)
        except RejectedError as fault:
            rows.reject(fault, kind, arrival)
    batches = rows.drain()
    for table in EVENT_TABLES:
        assert table.name not in batches or batches[table.name].schema == table.schema
    return {name: batch.to_pylist() for name, batch in batches.items()}


def facet_rows(rows: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows of all facet tables, large facets in their place."""
    large = {row["uuid"]: row["facet"] for row in rows.get("large_facets", ())}
    found = [row for table in FACET_TABLES for row in rows[table]]
    return [{**row, "facet": large[row["uuid"]] if row["facet"] is None else row["facet"]} for row in found]


def facets_in(body: bytes) -> list[tuple[str, Any]]:
    """All facets of an event, as an ordinary JSON reader finds them."""
    event = json.loads(body)
    holders = [event.get("run"), event.get("job"), event.get("dataset")]
    holders += [one for name in ("inputs", "outputs") for one in event.get(name) or ()]
    maps = [holder.get(name) for holder in holders if holder for name in ("facets", "inputFacets", "outputFacets")]
    return [facet for found in maps if isinstance(found, dict) for facet in found.items()]


def corpus(shared: Path) -> list[bytes]:
    paths = sorted((shared / "corpus").rglob("*.jsonl"))
    return [to_single_line(line) for path in paths for line in path.read_bytes().splitlines() if line.strip()]


def test_every_event_that_real_producers_wrote_is_kept_whole(shared: Path) -> None:
    bodies = list(dict.fromkeys(corpus(shared)))
    assert len(bodies) > 150
    rows = rows_of(*bodies)
    assert [row["event"].encode() for row in rows["lineage_events"]] == bodies
    assert "rejected_events" not in rows
    found = {identity: [] for identity in map(event_id, bodies)}  # type: dict[str, list[tuple[str, str]]]
    for row in facet_rows(rows):
        found[row["event_id"]].append((row["name"], row["facet"]))
    for body in bodies:
        stored = found[event_id(body)]
        assert all(facet.encode() in body for _, facet in stored)
        assert sorted((name, json.dumps(json.loads(facet))) for name, facet in stored) == sorted(
            (name, json.dumps(facet)) for name, facet in facets_in(body)
        )
    uuids = [row["uuid"] for table in FACET_TABLES for row in rows[table]]
    assert len(set(uuids)) == len(uuids)


EVENT = b"""{"eventTime": "2026-01-01T10:00:00.5Z", "eventType": "COMPLETE", "producer": "p", "session_id": "s",
"run": {"runId": "r", "facets": {"a": {"x" :1.50}}}, "job": {"namespace": "n", "name": "j", "facets": {"b": []}},
"inputs": [{"namespace": "n", "name": "i", "facets": {"version": {"datasetVersion": "2"}}, "inputFacets": {"c": null}}],
"outputs": [{"namespace": "n", "name": "o", "outputFacets": {"d": "t"}}]}"""


def test_a_facet_row_says_whose_it_is() -> None:
    rows = rows_of(b'{"eventTime": "2026-01-01T00:00:00Z", "run": {"runId": "first"}}', EVENT)
    keys = ("type", "dataset_name", "dataset_version", "direction", "name", "facet", "run_uuid")
    assert [tuple(row[key] for key in keys) for row in rows["dataset_facets"]] == [
        ("DATASET", "i", "2", "INPUT", "version", '{"datasetVersion": "2"}', "r"),
        ("INPUT", "i", "2", "INPUT", "c", "null", "r"),
        ("OUTPUT", "o", None, "OUTPUT", "d", '"t"', "r"),
    ]
    (run,), (job,) = rows["run_facets"], rows["job_facets"]
    assert (run["name"], run["facet"], run["job_name"]) == ("a", '{"x" :1.50}', "j")
    assert (job["name"], job["facet"], job["run_uuid"]) == ("b", "[]", "r")
    assert {row["created_at"] for row in (run, job)} == {ARRIVED}
    assert run["lineage_event_time"] == datetime(2026, 1, 1, 10, 0, 0, 500_000, UTC)
    assert run["lineage_event_type"] == "COMPLETE"
    assert run["seq"] == 10


def test_a_facet_that_is_no_object_says_so() -> None:
    rows = rows_of(EVENT)
    flaws = {row["name"]: row["facet_error"] for table in FACET_TABLES for row in rows[table]}
    assert flaws == {"a": None, "b": "not_an_object", "version": None, "c": "null", "d": "not_an_object"}


def test_uuids_are_the_same_when_the_event_comes_again() -> None:
    uuids = [[row["uuid"] for table in FACET_TABLES for row in rows_of(EVENT)[table]] for _ in range(2)]
    assert uuids[0] == uuids[1]
    assert len({UUID(one) for one in uuids[0]}) == 5


def test_an_event_row_names_what_it_read_and_wrote() -> None:
    (row,) = rows_of(EVENT)["lineage_events"]
    assert row["inputs"] == [{"namespace": "n", "name": "i", "version": "2"}]
    assert row["outputs"] == [{"namespace": "n", "name": "o", "version": None}]
    assert (row["kind"], row["session_id"], row["event"].encode()) == ("RUN", "s", EVENT)


@pytest.mark.parametrize("body", [b"\xff\xfe", b"not\r\njson", b"[" * 10_000 + b"]" * 10_000, b"", b"7"])
@pytest.mark.parametrize("stream", ["openlineage", "runtime", "dataframe"])
def test_a_rejected_event_keeps_its_bytes(body: bytes, stream: str) -> None:
    (row,) = rows_of(body, stream=stream)["rejected_events"]
    assert (row["body"], row["stream"], row["source"], row["received_at"]) == (body, stream, "test", ARRIVED)
    assert row["reason"]
    assert row["detail"]


def test_a_large_event_costs_its_size_once() -> None:
    plan = "x" * 10_000_000
    body = json.dumps({"eventTime": "2026-01-01T00:00:00Z", "run": {"runId": "r", "facets": {"plan": plan}}}).encode()
    (row,), (large,) = (rows_of(body)[table] for table in ("run_facets", "large_facets"))
    assert (row["facet"], row["large_facet_bytes"], row["uuid"]) == (None, len(plan) + 2, large["uuid"])
    assert large["facet"] == f'"{plan}"'
    assert (large["event_id"], large["seq"]) == (row["event_id"], row["seq"])


@pytest.mark.parametrize(("length", "is_apart"), [(65_535, False), (65_536, False), (65_537, True)])
def test_facets_up_to_64_kb_stay_in_their_row(length: int, is_apart: bool) -> None:
    facet = '{"text":"' + "é" * ((length - 11) // 2) + "x" * ((length - 11) % 2) + '"}'
    assert len(facet.encode()) == length
    body = f'{{"eventTime":"2026-01-01T00:00:00Z","run":{{"runId":"r","facets":{{"small":{{}},"a":{facet}}}}}}}'
    rows = rows_of(body.encode())
    assert ("large_facets" in rows) is is_apart
    assert [row["large_facet_bytes"] for row in rows["run_facets"]] == [None, length if is_apart else None]
    assert [row["facet"] for row in facet_rows({**rows, "job_facets": [], "dataset_facets": []})] == ["{}", facet]


NUMBERS = {
    "cell_index": 2**70,
    "cell_source_lines": -(2**70),
    "duration_ms": 7,
    "emitted_at": "0001-01-01T00:00:00+14:00",
}


def test_no_number_or_time_of_a_notebook_stops_the_others() -> None:
    context = {"session_id": "s", "execution_id": "e", "timestamp": "9999-12-31T23:59:59.999999Z"}
    event = json.dumps({"event_type": "cell_execution_end", **context, **NUMBERS}).encode()
    (row,) = rows_of(event, stream="runtime")["runtime_events"]
    assert (row["cell_index"], row["cell_source_lines"], row["duration_ms"], row["emitted_at"]) == (
        None,
        None,
        7.0,
        None,
    )
    assert row["event"].encode() == event


def test_an_operation_keeps_its_parameters_as_they_came() -> None:
    body = b"""{"event_type": "dataframe_lineage", "session_id": "s", "execution_id": "e", "timestamp": "2026-01-01",
    "operation_parameters": {"n" :5}, "column_lineage": {"a.x": ["b.y"]}, "input_dataframes": null,
    "output_dataframes": [{"variable_name": "a", "shape": [4, 3], "columns": ["x"]}]}"""
    (row,) = rows_of(body)["dataframe_events"]
    assert (row["operation_parameters"], row["column_lineage"]) == ('{"n" :5}', '{"a.x": ["b.y"]}')
    assert row["column_lineage_edges"] is None
    assert row["input_dataframes"] == []
    assert (row["output_dataframes"][0]["row_count"], row["output_dataframes"][0]["columns"]) == (4, ["x"])


def test_no_events_are_no_rows() -> None:
    assert rows_of() == {}


def test_rows_collected_later_know_nothing_of_those_before() -> None:
    others = [
        b'{"eventTime":"2026-01-01T00:00:00Z","dataset":{"namespace":"n","name":"d","facets":{"e":{}}}}',
        b'{"eventTime":"2026-01-01T00:00:00Z","run":{"runId":"q"},"outputs":[{"namespace":"n","name":"p"}]}',
    ]
    rows, apart = EventTableBuilder(), []
    for place, body in enumerate([EVENT, *others]):
        rows.add(decode_event("openlineage", body), ReceivedEvent(event_id(body), 10 * place, ARRIVED, "test", body))
        apart.append(rows.drain())
    together = rows_of(EVENT, *others)
    assert rows.drain() == {}
    for table, expected in together.items():
        assert [row for batches in apart for row in batches[table].to_pylist()] == expected


def test_a_raw_event_names_what_it_read_and_wrote() -> None:
    rows = EventTableBuilder()
    arrival = ReceivedEvent(event_id(EVENT), 10, ARRIVED, "test", EVENT)
    event = decode_event("openlineage", EVENT)
    assert isinstance(event, Event)
    rows.add_raw(event, arrival)
    rows.add(event, arrival)
    raw, whole = rows.drain()["lineage_events"].to_pylist()
    assert raw == {**whole, "is_raw_only": True}
