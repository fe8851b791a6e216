"""Tests of facets of raw-only runs, which are read from the events until a backfill."""

from __future__ import annotations

import json
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
from clew.lake import facets as lake_facets
from clew.lake.data_files import FileWriter
from clew.lake.event_rows import LineageTableBuilder, ReceivedEvent
from clew.lake.lake import BatchId, Lake
from clew.lake.schemas import EVENT_TABLES, LARGE_COLUMNS
from clew.query.context import QueryResources
from clew.query.entities.facets import find_run_facets, get_facet_history
from clew.query.service import NotebookService


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


def test_reads_run_facets_before_a_backfill(scenario: Any, resources: QueryResources, raw_lake: Path) -> None:
    with resources.reader() as index:
        assert find_run_facets(index, scenario.run_id("1"), None) == {}
        facets = find_run_facets(index, scenario.run_id("1"), raw_lake)
        assert {name: json.loads(bytes(facet)) for name, facet in facets.items()} == {"own": {"x": 2}}
        assert find_run_facets(index, scenario.run_id("other"), raw_lake) == {}
        # Without a lake there are no facets of raw-only events.
        assert find_run_facets(index, scenario.run_id("1"), raw_lake / "nothing") == {}


def test_refuses_to_parse_too_many_raw_events(
    scenario: Any, resources: QueryResources, raw_lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_facets, "MAX_RAW_EVENTS", 1)
    with resources.reader() as index, pytest.raises(ClewError, match="too many to parse on demand"):
        find_run_facets(index, scenario.run_id("1"), raw_lake)


def test_server_returns_facets_of_raw_events(scenario: Any, raw_lake: Path) -> None:
    with QueryResources(scenario.index, raw_lake) as resources:
        app = create_app(lambda: NotebookService(scenario.index), operation_routes(resources))
        with TestClient(app) as client:
            for _ in range(2):
                assert client.get(f"/api/v2/runs/{scenario.run_id('1')}").json()["facets"] == {"own": {"x": 2}}
        with resources.reader() as index:
            assert resources.has_pending_backfill(index)


def test_facet_history_requires_a_lake() -> None:
    with pytest.raises(ClewError, match="no facet history"):
        get_facet_history(None, "job", ("n", "j"), "sql")
