"""A home that is filled as a real one is: events in the log, taken into the index by the code that runs on workers."""

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
    """A home, what is sent to it, and its API; its index may be in a database."""

    def __init__(self, root: Path, index: IndexLocation | None = None) -> None:
        self.home = DataDir(root, None, index.text if isinstance(index, DatabaseUrl) else None).create()
        self._position = 0
        self._batches = 0
        self.client = TestClient(build_read_app(self.home))

    def send(self, events: Iterable[Event | bytes]) -> None:
        """Store events, and take them in."""
        bodies = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
        with LogWriter(self.home.log) as log:
            log.append([IncomingEvent(guess_stream(body), "test", body) for body in bodies])
        self.take()

    def take(self) -> None:
        """Take in what the log has got since the last time."""
        end = end_position(self.home.log)
        with IndexWriter(self.home.index) as sink:
            observer = ChangeExtractor(sink.dictionary)
            for part in split_ranges(self.home.log, self._position, end, max(1, end)):
                for seq, line in read_lines(part):
                    received = decode_record(line)
                    body = received.body
                    try:
                        observer.add(decode_event(received.stream, body), event_id(body), seq)
                    except RejectedError:
                        observer.add(None, event_id(body), seq)
            sink.apply(f"test/{self._batches}", observer.changes())
        self._position = end
        self._batches += 1

    def rebuild(self) -> None:
        """Lose the index, and build it from the log."""
        open_backend(self.home.index).remove()
        self._position = 0
        self.take()

    def get(self, path: str, status: int = 200, **params: Any) -> Any:
        """Ask; the answer as a value."""
        return self.ask("GET", path, status, **params)

    def ask(self, method: str, path: str, status: int = 200, body: Any = None, **params: Any) -> Any:
        """Send a request; the answer as a value."""
        answer = self.client.request(method, f"/api/v1{path}", params=params or None, json=body)
        assert answer.status_code == status, answer.text
        assert not answer.content or answer.headers["content-type"] == "application/json"
        return answer.json() if answer.content else None


def run_id(name: str) -> str:
    """The id of a run that tests call by a name."""
    return str(uuid5(NAMESPACE_OID, name))


def dataset(
    name: str, columns: str = "", sources: dict[str, list[tuple[str, str]]] | None = None, **more: Any
) -> Event:
    """A dataset of the warehouse; `sources` says of which columns each of its columns is made."""
    facets: Event = {"dataSource": {"name": "warehouse", "uri": "postgres://db:5432/shop"}, **more.pop("facets", {})}
    if columns:
        facets["schema"] = {"fields": [{"name": column, "type": "int"} for column in columns.split()]}
    if sources:
        how = [{"type": "DIRECT", "subtype": "AGGREGATION", "description": "sum", "masking": False}]
        facets["columnLineage"] = {
            "fields": {
                column: {
                    "inputFields": [
                        {"namespace": "postgres://db:5432", "name": table, "field": field, "transformations": how}
                        for table, field in found
                    ]
                }
                for column, found in sources.items()
            }
        }
    return {"namespace": "postgres://db:5432", "name": name, "facets": facets, **more}


def event(kind: str, minute: int, run: str, job: str = "daily.load", **more: Any) -> Event:
    """An event of a run."""
    parent = more.pop("parent", None)
    facets = {"nominalTime": {"nominalStartTime": "2026-01-01T00:00:00Z"}, **more.pop("run_facets", {})}
    if parent:
        facets["parent"] = {"run": {"runId": run_id(parent)}, "job": {"namespace": "shop", "name": "daily"}}
    return {
        "eventType": kind,
        "eventTime": f"2026-01-01T10:{minute:02}:00Z",
        "run": {"runId": run_id(run), "facets": facets},
        "job": {"namespace": "shop", "name": job, "facets": more.pop("job_facets", {})},
        "producer": "https://example.org/tests",
        **more,
    }


@pytest.fixture
def empty_shop(tmp_path: Path, place: IndexLocation) -> Iterator[Shop]:
    """A home in which nothing has happened."""
    shop = Shop(tmp_path / "home", place)
    with shop.client:
        yield shop


@pytest.fixture
def shop(empty_shop: Shop) -> Shop:
    """A home of its own for a test that changes it."""
    return filled(empty_shop)


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def shared_shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The same for all tests that only ask."""
    index = None if request.param == "sqlite" else request.getfixturevalue("postgres_places").empty("shop")
    shop = filled(Shop(tmp_path_factory.mktemp("shop") / "home", index))
    with shop.client:
        yield shop


def filled(empty_shop: Shop) -> Shop:
    """Two jobs of a parent: one loads orders, twice, the other sums them up; and one that failed."""
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
