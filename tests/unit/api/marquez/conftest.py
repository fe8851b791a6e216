"""Fixtures of Marquez API tests: a data directory with a log and an index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest
from starlette.testclient import TestClient

from clew.cli.serving import build_read_app
from clew.collector.file_import import guess_stream
from clew.data_dir import DatabaseUrl, DataDir, IndexLocation
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.decoding import RejectedError
from clew.events.ids import event_id
from clew.events.streams import decode_event
from clew.index.backends import open_backend
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter

Event = dict[str, Any]


class Shop:
    """A data directory with its API client; its index may be in a database."""

    def __init__(self, root: Path, index: IndexLocation | None = None) -> None:
        self.home = DataDir(root, None, index.text if isinstance(index, DatabaseUrl) else None).create()
        self._position = 0
        self._batches = 0
        self.client = TestClient(build_read_app(self.home))

    def send(self, events: Iterable[Event | bytes]) -> None:
        """Append events to the log and index them."""
        bodies = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
        with LogWriter(self.home.log) as log:
            log.append([IncomingEvent(guess_stream(body), "test", body) for body in bodies])
        self.index_new_events()

    def index_new_events(self) -> None:
        """Index the events appended since the last call."""
        end = end_position(self.home.log)
        with IndexWriter(self.home.index) as writer:
            extractor = ChangeExtractor(writer.dictionary)
            for log_range in split_ranges(self.home.log, self._position, end, max(1, end)):
                for seq, line in read_lines(log_range):
                    record = decode_record(line)
                    body = record.body
                    try:
                        extractor.add(decode_event(record.stream, body), event_id(body), seq)
                    except RejectedError:
                        extractor.add(None, event_id(body), seq)
            writer.apply(f"test/{self._batches}", extractor.changes())
        self._position = end
        self._batches += 1

    def rebuild(self) -> None:
        """Delete the index and rebuild it from the log."""
        open_backend(self.home.index).remove()
        self._position = 0
        self.index_new_events()

    def get(self, path: str, status: int = 200, **params: Any) -> Any:
        """Send a GET request and return the decoded response."""
        return self.request("GET", path, status, **params)

    def request(self, method: str, path: str, status: int = 200, body: Any = None, **params: Any) -> Any:
        """Send a request and return the decoded response."""
        response = self.client.request(method, f"/api/v1{path}", params=params or None, json=body)
        assert response.status_code == status, response.text
        assert not response.content or response.headers["content-type"] == "application/json"
        return response.json() if response.content else None


def run_id(name: str) -> str:
    """Return the run id for a test name."""
    return str(uuid5(NAMESPACE_OID, name))


def dataset(
    name: str, columns: str = "", sources: dict[str, list[tuple[str, str]]] | None = None, **extra: Any
) -> Event:
    """Return a dataset of the warehouse; `sources` has the source columns of each column."""
    facets: Event = {"dataSource": {"name": "warehouse", "uri": "postgres://db:5432/shop"}, **extra.pop("facets", {})}
    if columns:
        facets["schema"] = {"fields": [{"name": column, "type": "int"} for column in columns.split()]}
    if sources:
        transformations = [{"type": "DIRECT", "subtype": "AGGREGATION", "description": "sum", "masking": False}]
        facets["columnLineage"] = {
            "fields": {
                column: {
                    "inputFields": [
                        {
                            "namespace": "postgres://db:5432",
                            "name": table,
                            "field": source_column,
                            "transformations": transformations,
                        }
                        for table, source_column in fields
                    ]
                }
                for column, fields in sources.items()
            }
        }
    return {"namespace": "postgres://db:5432", "name": name, "facets": facets, **extra}


def event(kind: str, minute: int, run: str, job: str = "daily.load", **extra: Any) -> Event:
    """Return a run event."""
    parent = extra.pop("parent", None)
    facets = {"nominalTime": {"nominalStartTime": "2026-01-01T00:00:00Z"}, **extra.pop("run_facets", {})}
    if parent:
        facets["parent"] = {"run": {"runId": run_id(parent)}, "job": {"namespace": "shop", "name": "daily"}}
    return {
        "eventType": kind,
        "eventTime": f"2026-01-01T10:{minute:02}:00Z",
        "run": {"runId": run_id(run), "facets": facets},
        "job": {"namespace": "shop", "name": job, "facets": extra.pop("job_facets", {})},
        "producer": "https://example.org/tests",
        **extra,
    }


@pytest.fixture
def empty_shop(tmp_path: Path, index_location: IndexLocation) -> Iterator[Shop]:
    """Create an empty data directory."""
    shop = Shop(tmp_path / "home", index_location)
    with shop.client:
        yield shop


@pytest.fixture
def shop(empty_shop: Shop) -> Shop:
    """Create a data directory with the sample events, for a test that changes it."""
    return send_sample_events(empty_shop)


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def shared_shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Create a data directory with the sample events, shared by all tests that only read."""
    index = None if request.param == "sqlite" else request.getfixturevalue("postgres_schemas").empty("shop")
    shop = send_sample_events(Shop(tmp_path_factory.mktemp("shop") / "home", index))
    with shop.client:
        yield shop


def send_sample_events(empty_shop: Shop) -> Shop:
    """Send events of two child jobs, one that loads orders twice and one that sums them, and of a failed job."""
    orders = dataset("public.orders", "id price")
    totals = dataset("public.totals", "total", {"total": [("public.orders", "price")]})
    kind = {"jobType": {"processingType": "BATCH", "integration": "DBT", "jobType": "MODEL"}}
    empty_shop.send(
        [
            event("START", 1, "load-1", parent="day-1", job_facets=kind, outputs=[orders]),
            event("COMPLETE", 2, "load-1", parent="day-1", outputs=[orders]),
            event("START", 3, "sum-1", "daily.sum", parent="day-1", inputs=[orders], outputs=[totals]),
            event("COMPLETE", 5, "sum-1", "daily.sum", parent="day-1", inputs=[orders], outputs=[totals]),
            event("START", 6, "load-2", parent="day-2", outputs=[orders]),
            event("COMPLETE", 8, "load-2", parent="day-2", outputs=[orders]),
            event("START", 9, "bad-1", "hourly.check", inputs=[totals]),
            event("FAIL", 10, "bad-1", "hourly.check", run_facets={"errorMessage": {"message": "no"}}, inputs=[totals]),
        ]
    )
    return empty_shop
