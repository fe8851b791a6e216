"""Tests of facets of raw-only runs, which are read from the events until a backfill."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from clew.api.app import create_app
from clew.api.v2.routes import operation_routes
from clew.errors import ClewError
from clew.events.ids import event_id
from clew.events.openlineage import decode_openlineage
from clew.index.extract.extractor import RawOnlyExtractor
from clew.index.writer import IndexWriter
from clew.lake import backfill_state
from clew.lake.data_files import FileWriter
from clew.lake.event_rows import LineageTableBuilder, ReceivedEvent
from clew.lake.lake import BatchId, Lake
from clew.lake.schemas import EVENT_TABLES, LARGE_COLUMNS
from clew.query.context import QueryResources
from clew.query.entities.facets import NeedsThreadError, find_run_facets, get_facet_history


@pytest.fixture
def raw_lake(scenario: Any, tmp_path: Path) -> Path:
    """Create a lake and an index with two events of a run, without facets."""
    for kind, facet in (("START", {"x": 1}), ("COMPLETE", {"x": 2})):
        scenario.run("load", "raw", "orders", run="1", kind=kind, run_facets={"own": facet})
    lake, extractor, rows = Lake(tmp_path / "lake"), RawOnlyExtractor(), LineageTableBuilder()
    lake.create_or_validate()
    for seq, event in enumerate(scenario.events):
        body = json.dumps(event).encode()
        extractor.add(decode_openlineage(body), event_id(body), seq)
        arrival = ReceivedEvent(event_id(body), seq, datetime(2026, 1, 2, tzinfo=UTC), "test", body)
        rows.add_raw(decode_openlineage(body), arrival)
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    files = [*writer.add(rows.drain()), *writer.flush()]
    for table in EVENT_TABLES:
        lake.append(table.name, table.schema, [file for file in files if file.table == table.name], BatchId("app", 0))
    with IndexWriter(scenario.index) as index_writer:
        index_writer.apply("app/0", extractor.changes())
    return Path(str(lake.root))


@pytest.fixture
def raw_resources(scenario: Any, raw_lake: Path) -> Iterator[QueryResources]:
    """Return the resources of the index and the lake."""
    with QueryResources(scenario.index, raw_lake) as resources:
        yield resources


def read_run(resources: QueryResources, run_uuid: str) -> Any:
    with resources.reader() as index:
        facets = find_run_facets(index, run_uuid)
    return {name: json.loads(bytes(facet)) for name, facet in facets.items()}


def test_reads_run_facets_before_a_backfill(scenario: Any, raw_resources: QueryResources, raw_lake: Path) -> None:
    assert read_run(raw_resources, scenario.run_id("1")) == {"own": {"x": 2}}
    assert read_run(raw_resources, scenario.run_id("other")) == {}
    # Without a lake there are no facets of raw-only events.
    for lake in (None, raw_lake / "nothing"):
        with QueryResources(scenario.index, lake) as resources:
            assert read_run(resources, scenario.run_id("1")) == {}


def test_reads_the_lake_only_for_pending_facets(
    scenario: Any, raw_resources: QueryResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    with raw_resources.reader(may_block=False) as index, pytest.raises(NeedsThreadError):
        find_run_facets(index, scenario.run_id("1"))
    with raw_resources.reader() as index:
        raw_resources.check_pending_backfill(index)
    monkeypatch.setattr(raw_resources, "_pending_backfill", None)
    monkeypatch.setattr(raw_resources, "check_pending_backfill", lambda _: False)
    monkeypatch.setattr(backfill_state, "read_pending_events", None)
    assert read_run(raw_resources, scenario.run_id("1")) == {}


def test_server_returns_facets_of_raw_events(scenario: Any, raw_lake: Path) -> None:
    with QueryResources(scenario.index, raw_lake) as resources:
        app = create_app(operation_routes(resources))
        with TestClient(app) as client:
            for _ in range(2):
                assert client.get(f"/api/v2/runs/{scenario.run_id('1')}").json()["facets"] == {"own": {"x": 2}}
        with resources.reader() as index:
            assert resources.has_pending_backfill(index)


def test_facet_history_requires_a_lake(raw_resources: QueryResources) -> None:
    with raw_resources.reader() as index, pytest.raises(ClewError, match="no facet history"):
        get_facet_history(index, None, "job", ("n", "j"), "sql")
