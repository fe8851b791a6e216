"""Facets of a run whose events were taken in raw: from these events, as long as no backfill has filled them in."""

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
def raw(world: Any, tmp_path: Path) -> Path:
    """Create a lake and an index with two events of a run, without facets."""
    for kind, facet in (("START", {"x": 1}), ("COMPLETE", {"x": 2})):
        world.run("load", "raw", "orders", run="1", kind=kind, run_facets={"own": facet})
    lake, observer, rows = Lake(tmp_path / "lake"), RawOnlyExtractor(), LineageTableBuilder()
    lake.create_or_validate()
    for seq, event in enumerate(world.events):
        body = json.dumps(event).encode()
        observer.add(decode_openlineage(body), event_id(body), seq)
        arrival = ReceivedEvent(event_id(body), seq, datetime(2026, 1, 2, tzinfo=UTC), "test", body)
        rows.add_raw(decode_openlineage(body), arrival)
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    files = [*writer.add(rows.drain()), *writer.flush()]
    for table in EVENT_TABLES:
        lake.append(table.name, table.schema, [file for file in files if file.table == table.name], BatchId("app", 0))
    with IndexWriter(world.index) as sink:
        sink.apply("app/0", observer.changes())
    return Path(str(lake.root))


def test_a_run_has_its_facets_before_a_backfill(world: Any, holdings: QueryResources, raw: Path) -> None:
    with holdings.reader() as index:
        assert find_run_facets(index, world.run_id("1"), None) == {}
        found = find_run_facets(index, world.run_id("1"), raw)
        assert {name: json.loads(bytes(facet)) for name, facet in found.items()} == {"own": {"x": 2}}
        assert find_run_facets(index, world.run_id("other"), raw) == {}
        # Whoever has no lake has no facets that are only there.
        assert find_run_facets(index, world.run_id("1"), raw / "nothing") == {}


def test_more_raw_events_than_a_look_may_cost_are_refused(
    world: Any, holdings: QueryResources, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_facets, "MAX_RAW_EVENTS", 1)
    with holdings.reader() as index, pytest.raises(ClewError, match="too many to parse on demand"):
        find_run_facets(index, world.run_id("1"), raw)


def test_a_server_answers_with_facets_of_raw_events(world: Any, raw: Path) -> None:
    with QueryResources(world.index, raw) as holdings:
        app = create_app(lambda: NotebookService(world.index), operation_routes(holdings))
        with TestClient(app) as client:
            for _ in range(2):
                assert client.get(f"/api/v2/runs/{world.run_id('1')}").json()["facets"] == {"own": {"x": 2}}
        with holdings.reader() as index:
            assert holdings.has_pending_backfill(index)


def test_without_a_lake_there_is_no_history() -> None:
    with pytest.raises(ClewError, match="no facet history"):
        get_facet_history(None, "job", ("n", "j"), "sql")
