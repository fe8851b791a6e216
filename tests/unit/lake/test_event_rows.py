"""Tests of event rows: every facet is stored byte for byte."""

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

RECEIVED_AT = datetime(2026, 1, 2, tzinfo=UTC)
FACET_TABLES = ("run_facets", "job_facets", "dataset_facets")


def build_rows(*bodies: bytes, stream: str | None = None) -> dict[str, list[dict[str, Any]]]:
    rows = EventTableBuilder()
    for number, body in enumerate(bodies):
        received = ReceivedEvent(event_id(body), 10 * number, RECEIVED_AT, "test", body)
        event_stream = stream or guess_stream(body)
        try:
            rows.add(decode_event(event_stream, body), received)
        except RejectedError as error:
            rows.reject(error, event_stream, received)
    batches = rows.drain()
    for table in EVENT_TABLES:
        assert table.name not in batches or batches[table.name].schema == table.schema
    return {name: batch.to_pylist() for name, batch in batches.items()}


def facet_rows(rows: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the rows of all facet tables with large facets inlined."""
    large = {row["uuid"]: row["facet"] for row in rows.get("large_facets", ())}
    small = [row for table in FACET_TABLES for row in rows[table]]
    return [{**row, "facet": large[row["uuid"]] if row["facet"] is None else row["facet"]} for row in small]


def parse_facets(body: bytes) -> list[tuple[str, Any]]:
    """Return all facets of an event, parsed by the json module."""
    event = json.loads(body)
    entities = [event.get("run"), event.get("job"), event.get("dataset")]
    entities += [dataset for name in ("inputs", "outputs") for dataset in event.get(name) or ()]
    maps = [entity.get(name) for entity in entities if entity for name in ("facets", "inputFacets", "outputFacets")]
    return [facet for facets in maps if isinstance(facets, dict) for facet in facets.items()]


def load_corpus(shared: Path) -> list[bytes]:
    paths = sorted((shared / "corpus").rglob("*.jsonl"))
    lines = [to_single_line(line) for path in paths for line in path.read_bytes().splitlines() if line.strip()]
    # A RunEvent without a run id is rejected.
    return [line for line in lines if b'"run": {}' not in line]


def test_corpus_events_and_facets_are_stored_byte_for_byte(shared: Path) -> None:
    bodies = list(dict.fromkeys(load_corpus(shared)))
    assert len(bodies) > 150
    rows = build_rows(*bodies)
    assert [row["event"].encode() for row in rows["lineage_events"]] == bodies
    assert "rejected_events" not in rows
    facets_by_event = {key: [] for key in map(event_id, bodies)}  # type: dict[str, list[tuple[str, str]]]
    for row in facet_rows(rows):
        facets_by_event[row["event_id"]].append((row["name"], row["facet"]))
    for body in bodies:
        stored = facets_by_event[event_id(body)]
        assert all(facet.encode() in body for _, facet in stored)
        assert sorted((name, json.dumps(json.loads(facet))) for name, facet in stored) == sorted(
            (name, json.dumps(facet)) for name, facet in parse_facets(body)
        )
    uuids = [row["uuid"] for table in FACET_TABLES for row in rows[table]]
    assert len(set(uuids)) == len(uuids)


EVENT = b"""{"eventTime": "2026-01-01T10:00:00.5Z", "eventType": "COMPLETE", "producer": "p", "session_id": "s",
"run": {"runId": "r", "facets": {"a": {"x" :1.50}}}, "job": {"namespace": "n", "name": "j", "facets": {"b": []}},
"inputs": [{"namespace": "n", "name": "i", "facets": {"version": {"datasetVersion": "2"}}, "inputFacets": {"c": null}}],
"outputs": [{"namespace": "n", "name": "o", "outputFacets": {"d": "t"}}]}"""


def test_facet_rows_identify_their_entity() -> None:
    rows = build_rows(
        b'{"eventTime": "2026-01-01T00:00:00Z", "run": {"runId": "first"}, "job": {"namespace": "n", "name": "j"}}',
        EVENT,
    )
    keys = ("type", "dataset_name", "dataset_version", "direction", "name", "facet", "run_uuid")
    assert [tuple(row[key] for key in keys) for row in rows["dataset_facets"]] == [
        ("DATASET", "i", "2", "INPUT", "version", '{"datasetVersion": "2"}', "r"),
        ("INPUT", "i", "2", "INPUT", "c", "null", "r"),
        ("OUTPUT", "o", None, "OUTPUT", "d", '"t"', "r"),
    ]
    (run,), (job,) = rows["run_facets"], rows["job_facets"]
    assert (run["name"], run["facet"], run["job_name"]) == ("a", '{"x" :1.50}', "j")
    assert (job["name"], job["facet"], job["run_uuid"]) == ("b", "[]", "r")
    assert {row["created_at"] for row in (run, job)} == {RECEIVED_AT}
    assert run["lineage_event_time"] == datetime(2026, 1, 1, 10, 0, 0, 500_000, UTC)
    assert run["lineage_event_type"] == "COMPLETE"
    assert run["seq"] == 10


def test_facet_error_of_facets_that_are_not_objects() -> None:
    rows = build_rows(EVENT)
    errors = {row["name"]: row["facet_error"] for table in FACET_TABLES for row in rows[table]}
    assert errors == {"a": None, "b": "not_an_object", "version": None, "c": "null", "d": "not_an_object"}


def test_facet_uuids_are_deterministic() -> None:
    uuids = [[row["uuid"] for table in FACET_TABLES for row in build_rows(EVENT)[table]] for _ in range(2)]
    assert uuids[0] == uuids[1]
    assert len({UUID(uuid) for uuid in uuids[0]}) == 5


def test_event_row_contains_inputs_and_outputs() -> None:
    (row,) = build_rows(EVENT)["lineage_events"]
    assert row["inputs"] == [{"namespace": "n", "name": "i", "version": "2"}]
    assert row["outputs"] == [{"namespace": "n", "name": "o", "version": None}]
    assert (row["kind"], row["session_id"], row["event"].encode()) == ("RUN", "s", EVENT)


@pytest.mark.parametrize("body", [b"\xff\xfe", b"not\r\njson", b"[" * 10_000 + b"]" * 10_000, b"", b"7"])
@pytest.mark.parametrize("stream", ["openlineage", "runtime", "dataframe"])
def test_rejected_event_is_stored_byte_for_byte(body: bytes, stream: str) -> None:
    (row,) = build_rows(body, stream=stream)["rejected_events"]
    assert (row["body"], row["stream"], row["source"], row["received_at"]) == (body, stream, "test", RECEIVED_AT)
    assert row["reason"]
    assert row["detail"]


def test_large_facet_is_stored_once() -> None:
    plan = "x" * 10_000_000
    body = json.dumps(
        {
            "eventTime": "2026-01-01T00:00:00Z",
            "run": {"runId": "r", "facets": {"plan": plan}},
            "job": {"namespace": "n", "name": "j"},
        }
    ).encode()
    (row,), (large,) = (build_rows(body)[table] for table in ("run_facets", "large_facets"))
    assert (row["facet"], row["large_facet_bytes"], row["uuid"]) == (None, len(plan) + 2, large["uuid"])
    assert large["facet"] == f'"{plan}"'
    assert (large["event_id"], large["seq"]) == (row["event_id"], row["seq"])


@pytest.mark.parametrize(("length", "is_large"), [(65_535, False), (65_536, False), (65_537, True)])
def test_facets_up_to_64_kib_are_inline(length: int, is_large: bool) -> None:
    facet = '{"text":"' + "é" * ((length - 11) // 2) + "x" * ((length - 11) % 2) + '"}'
    assert len(facet.encode()) == length
    run = f'{{"runId":"r","facets":{{"small":{{}},"a":{facet}}}}}'
    body = f'{{"eventTime":"2026-01-01T00:00:00Z","run":{run},"job":{{"namespace":"n","name":"j"}}}}'
    rows = build_rows(body.encode())
    assert ("large_facets" in rows) is is_large
    assert [row["large_facet_bytes"] for row in rows["run_facets"]] == [None, length if is_large else None]
    assert [row["facet"] for row in facet_rows({**rows, "job_facets": [], "dataset_facets": []})] == ["{}", facet]


EXTREME_VALUES = {
    "cell_index": 2**70,
    "cell_source_lines": -(2**70),
    "duration_ms": 7,
    "emitted_at": "0001-01-01T00:00:00+14:00",
}


def test_out_of_range_numbers_and_times_become_null() -> None:
    context = {"session_id": "s", "execution_id": "e", "timestamp": "9999-12-31T23:59:59.999999Z"}
    event = json.dumps({"event_type": "cell_execution_end", **context, **EXTREME_VALUES}).encode()
    (row,) = build_rows(event, stream="runtime")["runtime_events"]
    assert (row["cell_index"], row["cell_source_lines"], row["duration_ms"], row["emitted_at"]) == (
        None,
        None,
        7.0,
        None,
    )
    assert row["event"].encode() == event


def test_operation_parameters_are_stored_byte_for_byte() -> None:
    body = b"""{"event_type": "dataframe_lineage", "session_id": "s", "execution_id": "e", "timestamp": "2026-01-01",
    "operation_parameters": {"n" :5}, "column_lineage": {"a.x": ["b.y"]}, "input_dataframes": null,
    "output_dataframes": [{"variable_name": "a", "shape": [4, 3], "columns": ["x"]}]}"""
    (row,) = build_rows(body)["dataframe_events"]
    assert (row["operation_parameters"], row["column_lineage"]) == ('{"n" :5}', '{"a.x": ["b.y"]}')
    assert row["column_lineage_edges"] is None
    assert row["input_dataframes"] == []
    assert (row["output_dataframes"][0]["row_count"], row["output_dataframes"][0]["columns"]) == (4, ["x"])


def test_no_events_give_no_rows() -> None:
    assert build_rows() == {}


def test_drain_resets_the_builder() -> None:
    other_events = [
        b'{"eventTime":"2026-01-01T00:00:00Z","dataset":{"namespace":"n","name":"d","facets":{"e":{}}}}',
        b'{"eventTime":"2026-01-01T00:00:00Z","run":{"runId":"q"},"job":{"namespace":"n","name":"q"},"outputs":[{"namespace":"n","name":"p"}]}',
    ]
    builder, drained = EventTableBuilder(), []
    for number, body in enumerate([EVENT, *other_events]):
        builder.add(
            decode_event("openlineage", body), ReceivedEvent(event_id(body), 10 * number, RECEIVED_AT, "test", body)
        )
        drained.append(builder.drain())
    rows_of_all = build_rows(EVENT, *other_events)
    assert builder.drain() == {}
    for table, expected in rows_of_all.items():
        assert [row for batches in drained for row in batches[table].to_pylist()] == expected


def test_raw_event_row_equals_the_full_row() -> None:
    builder = EventTableBuilder()
    received = ReceivedEvent(event_id(EVENT), 10, RECEIVED_AT, "test", EVENT)
    event = decode_event("openlineage", EVENT)
    assert isinstance(event, Event)
    builder.add_raw(event, received)
    builder.add(event, received)
    raw, full = builder.drain()["lineage_events"].to_pylist()
    assert raw == {**full, "is_raw_only": True}
