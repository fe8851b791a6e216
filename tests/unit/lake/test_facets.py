"""Tests of run facets in the lake: merged first to last, byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.events.facets import FacetOrder
from clew.events.ids import event_id
from clew.events.openlineage import decode_openlineage
from clew.lake.data_files import FileWriter
from clew.lake.event_rows import LineageTableBuilder, ReceivedEvent
from clew.lake.facets import RunFacets, load_run_facets, read_facet_history
from clew.lake.lake import BatchId, Lake
from clew.lake.scan import ValueRange, prune_files
from clew.lake.schemas import EVENT_TABLES, LARGE_COLUMNS, RUN_FACETS

LARGE = '{"text" : "' + "x" * 70_000 + '"}'


def event(minute: int, facets: str, *, run: str = "r", more: str = "") -> str:
    event_time = f"2026-01-01T10:0{minute}:00Z"
    all_more = more if '"job"' in more else more + ',"job":{"namespace":"n","name":"j"}'
    return f'{{"eventTime":"{event_time}","run":{{"runId":"{run}","facets":{facets}}}{all_more}}}'


def job(facets: str) -> str:
    return f',"job":{{"namespace":"n","name":"j","facets":{facets}}}'


def outputs(*facets: str) -> str:
    return ',"outputs":[' + ",".join(f'{{"namespace":"n","name":"o",{dataset}}}' for dataset in facets) + "]"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    new_lake = Lake(tmp_path)
    new_lake.create_or_validate()
    return new_lake


def append_events(lake: Lake, *bodies: str) -> Lake:
    """Append each event as one batch, at positions 0, 10, 20 and so on."""
    for number, body in enumerate(map(str.encode, bodies)):
        rows = LineageTableBuilder()
        rows.add(
            decode_openlineage(body),
            ReceivedEvent(event_id(body), 10 * number, datetime(2026, 1, 2, tzinfo=UTC), "test", body),
        )
        writer = FileWriter(str(lake.root), LARGE_COLUMNS)
        files = [*writer.add(rows.drain()), *writer.flush()]
        for table in EVENT_TABLES:
            table_files = [file for file in files if file.table == table.name]
            lake.append(table.name, table.schema, table_files, BatchId("app", number))
    return lake


def decode_facets(facets: dict[str, msgspec.Raw]) -> dict[str, str]:
    return {name: bytes(facet).decode() for name, facet in facets.items()}


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param([event(1, '{"a":{"x" : 1.50}}')], {"a": '{"x" : 1.50}'}, id="byte for byte"),
        pytest.param(
            [event(1, '{"a":{"x":1},"b":{}}'), event(2, '{"a":{"y":2}}')],
            {"b": "{}", "a": '{"y":2}'},
            id="replaced as a whole",
        ),
        pytest.param([event(1, '{"a":{"x":1}}'), event(2, "{}")], {"a": '{"x":1}'}, id="absent removes nothing"),
        pytest.param([event(1, '{"a":{"x":1}}'), event(2, '{"a":{}}')], {"a": "{}"}, id="empty replaces"),
        pytest.param([event(1, '{"a":{"x":1}}'), event(2, '{"a":{"_deleted":true}}')], {}, id="deleted"),
        pytest.param([event(1, '{"a":{"_deleted":true}}'), event(2, '{"a":{}}')], {"a": "{}"}, id="added again"),
        pytest.param([event(1, '{"a":null,"b":[1]}')], {"a": "null", "b": "[1]"}, id="malformed"),
        pytest.param([event(1, f'{{"a":{LARGE},"b":{{}}}}')], {"a": LARGE, "b": "{}"}, id="large"),
        pytest.param([event(1, f'{{"a":{LARGE}}}'), event(2, '{"a":{}}')], {"a": "{}"}, id="large, then small"),
        pytest.param([event(1, '{"a":{}}', run="x"), event(2, '{"b":{}}')], {"b": "{}"}, id="other run"),
        pytest.param([event(1, '{"performance":{}}')], {"marimo_performance": "{}"}, id="alias"),
    ],
)
def test_load_run_facets(bodies: list[str], expected: dict[str, str], lake: Lake) -> None:
    assert decode_facets(load_run_facets(append_events(lake, *bodies), "r").facets) == expected


@pytest.mark.parametrize(("order", "expected"), [(FacetOrder.RECEIVED, "third"), (FacetOrder.EVENT_TIME, "second")])
def test_load_run_facets_uses_the_facet_order(order: FacetOrder, expected: str, lake: Lake) -> None:
    append_events(
        lake, *(event(minute, f'{{"a":"{word}"}}') for minute, word in ((5, "first"), (5, "second"), (1, "third")))
    )
    assert decode_facets(load_run_facets(lake, "r", order).facets) == {"a": f'"{expected}"'}


def test_load_run_facets_includes_jobs_and_datasets(lake: Lake) -> None:
    run_outputs = outputs(
        '"facets":{"version":{"datasetVersion":"1"},"schema":{"fields":[]}},"outputFacets":{"outputStatistics":{}}',
        '"facets":{"version":{"datasetVersion":"2"}},"inputFacets":{"odd":{}}',
        '"outputFacets":{"gone":{"_deleted":true}}',
    )
    run_facets = load_run_facets(append_events(lake, event(1, "{}", more=job('{"sql":{}}') + run_outputs)), "r")
    assert to_builtins(run_facets) == {
        "run_uuid": "r",
        "facets": {},
        "jobs": [{"namespace": "n", "name": "j", "facets": {"sql": {}}}],
        "inputs": [],
        "outputs": [
            {
                "namespace": "n",
                "name": "o",
                "version": "1",
                "facets": {"version": {"datasetVersion": "1"}, "schema": {"fields": []}},
                "input_facets": {},
                "output_facets": {"outputStatistics": {}},
            },
            {
                "namespace": "n",
                "name": "o",
                "version": "2",
                "facets": {"version": {"datasetVersion": "2"}},
                "input_facets": {"odd": {}},
                "output_facets": {},
            },
        ],
    }


def to_builtins(run_facets: RunFacets) -> Any:
    return msgspec.json.decode(msgspec.json.encode(run_facets))


def test_unknown_run_has_no_facets(lake: Lake) -> None:
    assert to_builtins(load_run_facets(append_events(lake, event(1, '{"a":{}}')), "other")) == {
        "run_uuid": "other",
        "facets": {},
        "jobs": [],
        "inputs": [],
        "outputs": [],
    }


def test_prune_files_by_run(lake: Lake) -> None:
    append_events(lake, *(event(number, '{"a":{}}', run=f"run {number}") for number in range(4)))
    assert len(prune_files(lake, RUN_FACETS, ValueRange("run_uuid", "run 2", "run 2"))) == 1
    assert decode_facets(load_run_facets(lake, "run 2").facets) == {"a": "{}"}


@pytest.mark.parametrize("run", ["r" * 200, "é" * 100, "\U0010ffff" * 70])
def test_finds_runs_with_long_and_non_ascii_ids(run: str, lake: Lake) -> None:
    append_events(lake, event(1, '{"a":{}}', run=run), event(2, '{"b":{}}', run="s"))
    assert decode_facets(load_run_facets(lake, run).facets) == {"a": "{}"}


def test_facet_history_has_one_state_per_change(lake: Lake) -> None:
    bodies = ('{"a":{"x":1}}', '{"a":{"x":1},"b":{}}', '{"a":{"_deleted":true}}', "{}", f'{{"a":{LARGE}}}')
    append_events(lake, *(event(minute, "{}", more=job(facets)) for minute, facets in enumerate(bodies)))
    history = read_facet_history(lake, "job", ("n", "j"), "a")
    assert [None if state.facet is None else bytes(state.facet).decode() for state in history] == [
        LARGE,
        None,
        '{"x":1}',
    ]
    assert [state.events for state in history] == [1, 1, 2]
    assert [state.first_at.minute for state in history] == [4, 2, 0]
    assert read_facet_history(lake, "job", ("n", "other"), "a") == []
    assert [state.events for state in read_facet_history(lake, "job", ("n", "j"), "b")] == [1]


def test_facet_history_of_datasets_and_runs(lake: Lake) -> None:
    append_events(lake, event(1, '{"marimoExecution":{"x":1}}', more=outputs('"facets":{"schema":{"fields":[]}}')))
    assert len(read_facet_history(lake, "dataset", ("n", "o"), "schema")) == 1
    # Stored under its canonical name.
    assert len(read_facet_history(lake, "run", ("r",), "marimo_execution")) == 1
