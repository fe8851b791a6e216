"""The facets of a run, merged first to last, byte for byte as they came."""

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
    moment = f"2026-01-01T10:0{minute}:00Z"
    return f'{{"eventTime":"{moment}","run":{{"runId":"{run}","facets":{facets}}}{more}}}'


def job(facets: str) -> str:
    return f',"job":{{"namespace":"n","name":"j","facets":{facets}}}'


def outputs(*facets: str) -> str:
    return ',"outputs":[' + ",".join(f'{{"namespace":"n","name":"o",{one}}}' for one in facets) + "]"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path)
    made.create_or_validate()
    return made


def put(lake: Lake, *bodies: str) -> Lake:
    """Each event as a batch of its own, at positions 0, 10, 20 and on."""
    for place, body in enumerate(map(str.encode, bodies)):
        rows = LineageTableBuilder()
        rows.add(
            decode_openlineage(body),
            ReceivedEvent(event_id(body), 10 * place, datetime(2026, 1, 2, tzinfo=UTC), "test", body),
        )
        writer = FileWriter(str(lake.root), LARGE_COLUMNS)
        files = [*writer.add(rows.drain()), *writer.flush()]
        for table in EVENT_TABLES:
            own = [file for file in files if file.table == table.name]
            lake.append(table.name, table.schema, own, BatchId("app", place))
    return lake


def texts(facets: dict[str, msgspec.Raw]) -> dict[str, str]:
    return {name: bytes(facet).decode() for name, facet in facets.items()}


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param([event(1, '{"a":{"x" : 1.50}}')], {"a": '{"x" : 1.50}'}, id="as it came"),
        pytest.param(
            [event(1, '{"a":{"x":1},"b":{}}'), event(2, '{"a":{"y":2}}')], {"b": "{}", "a": '{"y":2}'}, id="whole"
        ),
        pytest.param([event(1, '{"a":{"x":1}}'), event(2, "{}")], {"a": '{"x":1}'}, id="absent removes nothing"),
        pytest.param([event(1, '{"a":{"x":1}}'), event(2, '{"a":{}}')], {"a": "{}"}, id="empty replaces"),
        pytest.param([event(1, '{"a":{"x":1}}'), event(2, '{"a":{"_deleted":true}}')], {}, id="deleted"),
        pytest.param([event(1, '{"a":{"_deleted":true}}'), event(2, '{"a":{}}')], {"a": "{}"}, id="and back"),
        pytest.param([event(1, '{"a":null,"b":[1]}')], {"a": "null", "b": "[1]"}, id="flawed and kept"),
        pytest.param([event(1, f'{{"a":{LARGE},"b":{{}}}}')], {"a": LARGE, "b": "{}"}, id="large"),
        pytest.param([event(1, f'{{"a":{LARGE}}}'), event(2, '{"a":{}}')], {"a": "{}"}, id="large and then small"),
        pytest.param([event(1, '{"a":{}}', run="x"), event(2, '{"b":{}}')], {"b": "{}"}, id="of this run alone"),
        pytest.param([event(1, '{"performance":{}}')], {"marimo_performance": "{}"}, id="by its other name"),
    ],
)
def test_facets_of_a_run(bodies: list[str], expected: dict[str, str], lake: Lake) -> None:
    assert texts(load_run_facets(put(lake, *bodies), "r").facets) == expected


@pytest.mark.parametrize(("order", "expected"), [(FacetOrder.RECEIVED, "third"), (FacetOrder.EVENT_TIME, "second")])
def test_the_order_decides(order: FacetOrder, expected: str, lake: Lake) -> None:
    put(lake, *(event(minute, f'{{"a":"{word}"}}') for minute, word in ((5, "first"), (5, "second"), (1, "third"))))
    assert texts(load_run_facets(lake, "r", order).facets) == {"a": f'"{expected}"'}


def test_what_a_run_says_of_its_job_and_datasets(lake: Lake) -> None:
    described = outputs(
        '"facets":{"version":{"datasetVersion":"1"},"schema":{"fields":[]}},"outputFacets":{"outputStatistics":{}}',
        '"facets":{"version":{"datasetVersion":"2"}},"inputFacets":{"odd":{}}',
        '"outputFacets":{"gone":{"_deleted":true}}',
    )
    found = load_run_facets(put(lake, event(1, "{}", more=job('{"sql":{}}') + described)), "r")
    assert plain(found) == {
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


def plain(found: RunFacets) -> Any:
    return msgspec.json.decode(msgspec.json.encode(found))


def test_an_unknown_run_has_no_facets(lake: Lake) -> None:
    assert plain(load_run_facets(put(lake, event(1, '{"a":{}}')), "other")) == {
        "run_uuid": "other",
        "facets": {},
        "jobs": [],
        "inputs": [],
        "outputs": [],
    }


def test_only_files_that_may_hold_the_run_are_opened(lake: Lake) -> None:
    put(lake, *(event(number, '{"a":{}}', run=f"run {number}") for number in range(4)))
    assert len(prune_files(lake, RUN_FACETS, ValueRange("run_uuid", "run 2", "run 2"))) == 1
    assert texts(load_run_facets(lake, "run 2").facets) == {"a": "{}"}


@pytest.mark.parametrize("run", ["r" * 200, "é" * 100, "\U0010ffff" * 70])
def test_a_run_of_any_name_is_found(run: str, lake: Lake) -> None:
    put(lake, event(1, '{"a":{}}', run=run), event(2, '{"b":{}}', run="s"))
    assert texts(load_run_facets(lake, run).facets) == {"a": "{}"}


def test_a_facet_has_a_state_for_each_time_that_it_changed(lake: Lake) -> None:
    bodies = ('{"a":{"x":1}}', '{"a":{"x":1},"b":{}}', '{"a":{"_deleted":true}}', "{}", f'{{"a":{LARGE}}}')
    put(lake, *(event(minute, "{}", more=job(facets)) for minute, facets in enumerate(bodies)))
    found = read_facet_history(lake, "job", ("n", "j"), "a")
    assert [None if one.facet is None else bytes(one.facet).decode() for one in found] == [LARGE, None, '{"x":1}']
    assert [one.events for one in found] == [1, 1, 2]
    assert [one.first_at.minute for one in found] == [4, 2, 0]
    assert read_facet_history(lake, "job", ("n", "other"), "a") == []
    assert [one.events for one in read_facet_history(lake, "job", ("n", "j"), "b")] == [1]


def test_facets_of_a_dataset_and_of_a_run_have_a_history_too(lake: Lake) -> None:
    put(lake, event(1, '{"marimoExecution":{"x":1}}', more=outputs('"facets":{"schema":{"fields":[]}}')))
    assert len(read_facet_history(lake, "dataset", ("n", "o"), "schema")) == 1
    # Told by the name that it has now.
    assert len(read_facet_history(lake, "run", ("r",), "marimo_execution")) == 1
