"""Tests of deleted jobs and datasets that an event names again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.api.marquez.conftest import Shop, dataset, event

from clew.api.marquez.revivals import Revivals
from clew.eventlog.writer import IncomingEvent, LogEntry
from clew.events.streams import Stream
from clew.query.context import QueryResources

ORDERS = "dataset", "postgres://db:5432", "räw orders"


def entry(body: Any, stream: Stream = Stream.OPENLINEAGE) -> LogEntry:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return LogEntry.from_event(IncomingEvent(stream, "test", text))


def annotated(entries: list[LogEntry]) -> list[str]:
    return [name for item in entries for name in json.loads(bytes(item.body))["dataset"]["facets"]]


READ = event("COMPLETE", 1, "one", inputs=[dataset("räw orders")])


def test_an_event_shows_what_it_names_once() -> None:
    revivals = Revivals()
    assert revivals.annotations_for([entry(READ)]) == []
    revivals.add(*ORDERS)
    revivals.add("job", "shop", "other")
    (name,) = annotated(revivals.annotations_for([entry(event("START", 1, "two")), entry(READ)]))
    assert json.loads(name.removeprefix("clew_annotation")) == ["hidden", *ORDERS]
    assert revivals.annotations_for([entry(READ)]) == []
    (name,) = annotated(revivals.annotations_for([entry(event("START", 1, "two", "other"))]))
    assert json.loads(name.removeprefix("clew_annotation")) == ["hidden", "job", "shop", "other"]


@pytest.mark.parametrize(
    "other",
    [
        entry(json.dumps(READ, ensure_ascii=False).encode(), Stream.RUNTIME),
        entry(event("COMPLETE", 1, "räw orders")),
        entry(event("COMPLETE", 1, "one", run_facets={"x": {"text": "räw orders"}})),
        entry(b"r\xc3\xa4w orders {"),
        entry("räw orders".encode() * 3),
    ],
)
def test_other_bodies_show_nothing(other: LogEntry) -> None:
    revivals = Revivals()
    revivals.add(*ORDERS)
    assert revivals.annotations_for([other]) == []


def test_deletions_of_an_index_are_loaded(shop: Shop) -> None:
    shop.request("DELETE", "/namespaces/shop/jobs/daily.load")
    shop.index_new_events()
    revivals = Revivals()
    with QueryResources(shop.home.index) as resources:
        revivals.load(resources)
    (name,) = annotated(revivals.annotations_for([entry(event("START", 1, "two"))]))
    assert json.loads(name.removeprefix("clew_annotation")) == ["hidden", "job", "shop", "daily.load"]


def test_without_an_index_there_are_none(tmp_path: Any) -> None:
    revivals = Revivals()
    with QueryResources(tmp_path / "none.sqlite") as resources:
        revivals.load(resources)
    assert revivals.annotations_for([entry(READ)]) == []
