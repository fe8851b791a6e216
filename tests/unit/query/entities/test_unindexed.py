"""Tests of answers about events that are in the log but not in the index yet: equal to those after indexing."""

from __future__ import annotations

import json
import runpy
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest
from tests.support.paths import ROOT
from tests.unit.api.marquez.conftest import Event, Shop, dataset, event, run_id

from clew.collector.file_import import guess_stream
from clew.eventlog.writer import IncomingEvent, LogWriter

GENERATE = runpy.run_path(str(ROOT / "bench" / "generate.py"))
WAREHOUSE = "/namespaces/postgres%3A%2F%2Fdb%3A5432/datasets"


def log_only(shop: Shop, events: Sequence[Event | bytes]) -> None:
    """Append events to the log without indexing them."""
    bodies = [item if isinstance(item, bytes) else json.dumps(item).encode() for item in events]
    with LogWriter(shop.home.log) as log:
        log.append([IncomingEvent(guess_stream(body), "test", body) for body in bodies])


@pytest.fixture
def empty_shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    shop = Shop(tmp_path_factory.mktemp("unindexed") / "home")
    with shop.client:
        yield shop


def read_all(shop: Shop, paths: list[str]) -> list[Any]:
    return [shop.get(path) for path in paths]


def test_reads_a_new_run_job_and_dataset_at_once(empty_shop: Shop) -> None:
    empty_shop.send([event("COMPLETE", 1, "other")])
    total = dataset("public.totals", "total", {"total": [("public.orders", "price")]})
    own = [
        event("START", 2, "one", "sum", parent="day", inputs=[dataset("public.orders", "id price")], outputs=[total]),
        event(
            "COMPLETE", 3, "one", "sum", parent="day", inputs=[dataset("public.orders", "id price")], outputs=[total]
        ),
    ]
    log_only(empty_shop, own)
    paths = [
        f"/jobs/runs/{run_id('one')}",
        f"/jobs/runs/{run_id('one')}/facets?type=run",
        f"/jobs/runs/{run_id('day')}",
        "/namespaces/shop/jobs/sum",
        "/namespaces/shop/jobs/sum/versions",
        f"{WAREHOUSE}/public.orders",
        f"{WAREHOUSE}/public.totals",
        f"{WAREHOUSE}/public.totals/versions",
    ]
    before = read_all(empty_shop, paths)
    empty_shop.get("/namespaces/shop/jobs/sum/runs", 404)
    empty_shop.index_new_events()
    assert before == read_all(empty_shop, paths)


def test_merges_new_events_with_the_index(empty_shop: Shop) -> None:
    bodies = list(dict.fromkeys(islice(GENERATE["generate_events"](10_000, 11), 160)))
    empty_shop.send(bodies[:120])
    log_only(empty_shop, bodies[120:])
    documents = [json.loads(body) for body in bodies[120:]]
    paths = {f"/jobs/runs/{document['run']['runId']}" for document in documents}
    before = {path: empty_shop.get(path) for path in paths}
    empty_shop.index_new_events()
    after = {path: empty_shop.get(path) for path in paths}
    assert before == after


def test_an_event_after_a_deletion_shows_a_dataset_at_once(empty_shop: Shop) -> None:
    empty_shop.send([event("COMPLETE", 1, "one", outputs=[dataset("public.orders", "id")])])
    empty_shop.request("DELETE", f"{WAREHOUSE}/public.orders")
    empty_shop.get(f"{WAREHOUSE}/public.orders", 404)
    log_only(empty_shop, [event("COMPLETE", 2, "two", outputs=[dataset("public.orders", "id price")])])
    assert len(empty_shop.get(f"{WAREHOUSE}/public.orders")["fields"]) == 2
