"""Tests of imports over HTTP. The server is clew's own, which has the API of Marquez."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uvicorn
from tests.support.marquez_database import row_id, run_event
from tests.unit.api.marquez.conftest import Shop

from clew.data_dir import DataDir
from clew.errors import ClewError, UsageError
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.importer import marquez_api
from clew.importer.comparison import ServerFacts
from clew.importer.importer import ImportContext, ImportSummary, import_server, preview_server
from clew.importer.marquez_api import MarquezServer


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "source")


@pytest.fixture
def server(shop: Shop) -> Iterator[MarquezServer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(shop.client.app, log_level="error", lifespan="off")
        service = uvicorn.Server(config)
        thread = threading.Thread(target=service.run, kwargs={"sockets": [listener]})
        thread.start()
        yield MarquezServer(f"http://127.0.0.1:{listener.getsockname()[1]}")
        service.should_exit = True
        thread.join()


def import_into(home: DataDir, server: MarquezServer) -> ImportSummary:
    return import_server(ImportContext(home, has_ingestion=False), server)


def bodies(home: DataDir) -> list[dict[str, Any]]:
    ranges = split_ranges(home.log, 0, end_position(home.log), 1 << 30)
    return [json.loads(decode_record(text).body) for part in ranges for _, text in read_lines(part)]


def test_events_are_read_page_by_page(
    shop: Shop, server: MarquezServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marquez_api, "_EVENTS_PER_PAGE", 4)
    # Six events of one time are more than a page.
    events = [run_event(number // 6 * 10, "START", producer=f"https://example.com/{number}") for number in range(15)]
    shop.send(events)
    home = DataDir(tmp_path / "home")
    result = import_into(home, server)
    imported = bodies(home)
    assert sorted(imported, key=str) == sorted(events, key=str)
    assert result.events == 15
    assert import_into(home, server).events == 0
    shop.send([run_event(100)])
    assert import_into(home, server).events == 1


def test_the_time_of_receipt_is_the_event_time(shop: Shop, server: MarquezServer, tmp_path: Path) -> None:
    shop.send([run_event(1)])
    home = DataDir(tmp_path / "home")
    import_into(home, server)
    (part,) = split_ranges(home.log, 0, end_position(home.log), 1 << 30)
    record = decode_record(next(text for _, text in read_lines(part)))
    assert (record.at, record.source) == ("2024-05-06T07:09:09.000000+00:00", "import:marquez")


def test_what_events_do_not_contain_is_added(shop: Shop, server: MarquezServer, tmp_path: Path) -> None:
    fields = {"schema": {"fields": [{"name": "id", "type": "int"}]}}
    declared = {"eventTime": "2024-01-01T00:00:00Z", "dataset": {"namespace": "db", "name": "d", "facets": fields}}
    shop.send([run_event(number, "COMPLETE", "dag") for number in range(3)])
    shop.send([declared])
    shop.request("PUT", "/tags/PII", body={"description": "personal"})
    shop.request("POST", "/namespaces/db/datasets/out0/tags/PII")
    shop.request("POST", "/namespaces/db/datasets/out0/fields/id/tags/PII")
    shop.request("PUT", "/namespaces/db", body={"ownerName": "team"})
    shop.index_new_events()
    home = DataDir(tmp_path / "home")
    result = import_into(home, server)
    added = bodies(home)[3:]
    datasets = {event["dataset"]["name"]: event["dataset"]["facets"] for event in added if "dataset" in event}
    assert datasets["d"]["schema"]["fields"] == [{"name": "id", "type": "int"}]
    annotations = {key: value["annotation"] for key, value in datasets["notes"].items()}
    assert annotations['clew_annotation["tags","dataset","db","out0"]']["added"] == [[None, "PII"], ["id", "PII"]]
    assert annotations['clew_annotation["namespace","db"]']["owner"] == "team"
    assert annotations['clew_annotation["tag","PII"]']["description"] == "personal"
    assert result.annotations == len(annotations)
    again = import_into(home, server)
    assert (again.entity_events, again.annotations) == (0, 0)


def test_a_dry_run_counts(shop: Shop, server: MarquezServer, tmp_path: Path) -> None:
    shop.send([run_event(number) for number in range(3)])
    home = DataDir(tmp_path / "home")
    preview = preview_server(ImportContext(home), server)
    assert (preview.events, preview.counts["jobs"], preview.counts["datasets"]) == (3, 3, 4)
    assert not home.root.exists()


def test_facts_for_a_comparison(shop: Shop, server: MarquezServer) -> None:
    shop.send([run_event(number) for number in range(3)])
    facts = ServerFacts(server)
    assert facts.counts()["events"] == 3
    found = {(item.kind, item.name) for item in facts.sample(10)}
    assert {("job", "job0"), ("dataset", "out1"), ("run", str(row_id("run", 2)))} <= found
    (job,) = [item for item in facts.sample(10) if item.kind == "job" and item.name == "job0"]
    assert job.values["inputs"] == {("db", "in")}


@pytest.mark.parametrize("address", ["ftp://host/api/v1", "http://", "host:5000"])
def test_malformed_addresses_are_rejected(address: str) -> None:
    with pytest.raises(UsageError, match="is malformed"):
        MarquezServer(address)


def test_an_unreachable_server_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ClewError, match="Cannot read http"):
        MarquezServer(f"http://127.0.0.1:{port}").namespaces()


class OtherServer(BaseHTTPRequestHandler):
    """A server that is not Marquez; it records the keys that it gets."""

    keys: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.keys.append(self.headers.get("Authorization"))
        self.send_response(200 if "events" in self.path else 404)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_: object) -> None:
        pass


def test_another_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARQUEZ_API_KEY", "secret")
    with HTTPServer(("127.0.0.1", 0), OtherServer) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        server = MarquezServer(f"http://127.0.0.1:{other.server_port}/api/v1/")
        with pytest.raises(ClewError, match="does not answer like Marquez"):
            server.event_page(None, 1)
        with pytest.raises(ClewError, match="HTTP 404"):
            server.namespaces()
        other.shutdown()
    assert OtherServer.keys == ["Bearer secret"] * 2
