"""Tests that PostgreSQL and SQLite indexes give the same responses for every read path."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from tests.support.fixtures import Clock, NotebookSession
from tests.support.paths import ROOT
from tests.unit.api.marquez.conftest import Shop

from clew.api.marquez.app import read_routes
from clew.api.v2.routes import OPERATIONS

TESTS = ROOT / "tests"
GENERATE = runpy.run_path(str(TESTS.parent / "bench" / "generate.py"))
WAREHOUSE = runpy.run_path(str(TESTS / "e2e" / "page" / "shop.py"))
CASES = sorted((TESTS / "cases" / "pipeline").glob("*/events.ndjson"))
# Size of the random sample of each kind of entity; the seed is fixed.
SAMPLE_SIZE = 6

GetJson = Callable[[str], Any]


def event_bodies() -> Iterator[bytes]:
    """Yield events of all kinds: golden cases, two weeks of a shop, a notebook, and generated ones."""
    for case in CASES:
        yield from case.read_bytes().splitlines()
    yield from (json.dumps(event).encode() for event in islice(WAREHOUSE["events"](), 120))
    yield from islice(GENERATE["generate_events"](10_000, 7), 120)
    clock = Clock()
    for session in (NotebookSession(clock, "5eed0001", "orders"), NotebookSession(clock, "5eed0002", "orders")):
        session.run("START")
        session.operation("load", "df@1", {"price": [("orders.csv", "price")]}, code="pd.read_csv('Orders.csv')")
        session.operation("save", "totals.parquet", {"Sum": [("df@1", "price", "AGGREGATION")]}, error="'ÉCOLE'")
        session.run("COMPLETE")
        yield from (json.dumps(event).encode() for _, event in session.events)


@pytest.fixture(scope="module")
def backends(postgres_schemas: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shop, Shop]]:
    """Index one log in a file and in a database."""
    root = tmp_path_factory.mktemp("same") / "home"
    file, database = Shop(root), Shop(root, postgres_schemas.empty("answers"))
    file.send(dict.fromkeys(event_bodies()))
    database.index_new_events()
    with file.client, database.client:
        for shop in (file, database):
            wait_for_search_index(shop)
            shop.request("POST", "/namespaces/shop/jobs/daily.load/tags/GOLD", 404)
            shop.request("PUT", "/tags/GOLD", body={"description": "best"})
        yield file, database


def wait_for_search_index(shop: Shop) -> None:
    """Search until the search index is complete; on a slow machine this needs several requests."""
    assert any(shop.client.get("/api/v2/search?q=a").json()["isComplete"] for _ in range(10_000))


def get_response(shop: Shop, path: str) -> tuple[int, Any]:
    response = shop.client.get(path)
    value = response.json() if response.content else None
    if isinstance(value, dict):
        # The write time and position differ between indexes.
        value.pop("indexedUpTo", None)
        value.pop("indexedAt", None)
    return response.status_code, value


def marquez_paths(get_json: GetJson) -> Iterator[str]:
    """Yield every read path of Marquez's API for a sample of entities."""
    namespaces = [item["name"] for item in get_json("/api/v1/namespaces?limit=1000")["namespaces"]]
    jobs = choose_sample(get_json("/api/v1/jobs?limit=1000")["jobs"])
    datasets = [
        item
        for space in namespaces
        for item in get_json(f"/api/v1/namespaces/{quote_segment(space)}/datasets?limit=1000")["datasets"]
    ]
    yield from fill_pattern("v1/namespaces/*", namespaces)
    yield from fill_pattern("v1/namespaces/*/jobs", namespaces)
    yield from fill_pattern("v1/namespaces/*/datasets", namespaces)
    yield from fill_pattern("v1/sources/*", [item["name"] for item in get_json("/api/v1/sources")["sources"]])
    for job in jobs:
        entity_path, node = (
            f"/api/v1/namespaces/{quote_segment(job['namespace'])}/jobs/{quote_segment(job['name'])}",
            node_id_query("job", job),
        )
        yield from (
            entity_path,
            f"{entity_path}/runs?limit=3",
            f"{entity_path}/versions",
            *version_paths(get_json, entity_path),
        )
        yield from (f"/api/v1/lineage?{node}&depth=2", f"/api/v1/column-lineage?{node}")
        for run in get_json(f"{entity_path}/runs?limit=2")["runs"]:
            run_path = f"/api/v1/jobs/runs/{quote_segment(run['id'])}"
            yield from (run_path, f"{run_path}/facets?type=run", f"{run_path}/facets?type=job")
            yield f"/api/v1/runlineage/upstream?runId={quote_segment(run['id'])}"
    for dataset in choose_sample(datasets):
        entity_path = (
            f"/api/v1/namespaces/{quote_segment(dataset['namespace'])}/datasets/{quote_segment(dataset['name'])}"
        )
        node = node_id_query("dataset", dataset)
        yield from (entity_path, f"{entity_path}/versions?limit=3&offset=1", *version_paths(get_json, entity_path))
        yield from (f"/api/v1/lineage?{node}", f"/api/v1/column-lineage?{node}&withDownstream=true")
    yield from (f"/api/{'/'.join(route.pattern)}" for route in read_routes(Path()) if "*" not in route.pattern)
    yield from ("/api/v1/namespaces/%00/jobs", "/api/v1/namespaces/%00/datasets/%00", "/api/v1/jobs/runs/%00")
    yield from ("/api/v1/jobs?lastRunStates=FAILED&lastRunStates=NEW", "/api/v1/jobs?limit=3&offset=2")
    yield from (f"/api/v1/events/lineage?limit=20&sortDirection={direction}" for direction in ("asc", "desc"))
    yield from (f"/api/v1/search?q={word}&sort=update_at&limit=50" for word in ("o", "ORDERS", "%25", "_", "É", "%00"))
    yield from (f"/api/v1/search?q=o&filter={kind}&before=2026-01-01" for kind in ("job", "dataset"))
    yield from (f"/api/v2beta/search/{kind}?q=orders" for kind in ("jobs", "datasets"))
    yield from (f"/api/v1/stats/{kind}?period=WEEK&timezone=Asia/Tokyo" for kind in ("lineage-events", "jobs"))
    yield from (f"/api/v1/stats/{kind}?period=DAY" for kind in ("datasets", "sources"))


def v2_paths(get_json: GetJson) -> Iterator[str]:
    """Yield every path of `/api/v2` for a sample of entities."""
    jobs = choose_sample(get_json("/api/v2/jobs?limit=500")["jobs"])
    datasets = choose_sample(get_json("/api/v2/datasets?limit=500")["datasets"])
    yield from ("/api/v2/jobs?limit=3", "/api/v2/datasets?limit=3", "/api/v2/notebook-runs", "/api/v2/status")
    yield from ("/api/v2/notebook-runs/latest?column=totals.parquet.Sum", "/api/v2/notebook-runs/5eed0001")
    yield from (f"/api/v2/search?q={word}" for word in ("orders", "5eed", "gold", "nothing"))
    for entity in (*jobs, *datasets):
        node = urlencode({"nodeId": entity["id"]})
        kind = entity["id"].partition(":")[0]
        yield from (f"/api/v2/{kind}?{node}", f"/api/v2/impact?{node}", f"/api/v2/facets?{node}")
        yield f"/api/v2/facets/history?{node}&name=schema"
        yield from (
            f"/api/v2/lineage?{node}&direction={direction}&depth=3&frames=true" for direction in ("upstream", "both")
        )
        yield f"/api/v2/lineage?{node}&rollUp=parent&asOf=2026-01-01T10:03:00Z"
        if kind == "job":
            yield f"/api/v2/runs?{node}&limit=2"
            runs = [quote_segment(run["id"]) for run in get_json(f"/api/v2/runs?{node}&limit=2")["runs"]]
            yield from (f"/api/v2/runs/{run}" for run in runs)
            yield from (f"/api/v2/diff?left={left}&right={right}" for left, right in pairwise(runs))
        else:
            yield f"/api/v2/diff?{node}"
            yield f"/api/v2/path?{urlencode({'from': datasets[0]['id'], 'to': entity['id']})}"


def page_paths(get_json: GetJson) -> Iterator[str]:
    """Yield every view of the web UI for a sample of entities."""
    root = "/api/v2/pages"
    yield f"{root}/activity"
    for kind in ("datasets", "jobs", "runs"):
        yield from (f"{root}/{kind}?limit=50&text={word}" for word in ("", "Order", "É", "%25", "%00"))
    yield from (f"{root}/runs?state={state}" for state in ("FAILED", "RUNNING"))
    yield from (f"{root}/search?text={word}" for word in ("order", "PRICE", "to_", "read_csv", "0", "É", "%25"))
    yield from (f"{root}/changes/5eed0002", f"{root}/changes/5eed0001")
    for kind in ("dataset", "job"):
        for item in choose_sample(get_json(f"{root}/{kind}s?limit=500")["items"]):
            name = urlencode({key: item[kind][key] for key in ("namespace", "name")})
            node = quote_segment(f"{kind}/{quote_segment(item[kind]['namespace'])}/{quote_segment(item[kind]['name'])}")
            yield from (f"{root}/{kind}?{name}", f"{root}/graph?node={node}&depth=2&group=1")
            yield from (f"{root}/graph?node={node}&open=up%3A{node}", f"{root}/graph?node={node}&asOf=2026-01-01")
    runs = [quote_segment(item["runUuid"]) for item in choose_sample(get_json(f"{root}/runs?limit=500")["items"])]
    yield from (f"{root}/run/{run}" for run in runs)
    yield f"{root}/diff?before={runs[0]}&after={runs[1]}"


def choose_sample(items: list[Any]) -> list[Any]:
    return Random(7).sample(items, min(SAMPLE_SIZE, len(items)))


def quote_segment(text: str) -> str:
    return quote(text, safe="")


def fill_pattern(pattern: str, names: list[str]) -> Iterator[str]:
    return (f"/api/{pattern.replace('*', quote_segment(name))}" for name in names)


def node_id_query(kind: str, entity: Any) -> str:
    return urlencode({"nodeId": f"{kind}:{entity['namespace']}:{entity['name']}"})


def version_paths(get_json: GetJson, entity_path: str) -> Iterator[str]:
    return (
        f"{entity_path}/versions/{version['version']}"
        for version in get_json(f"{entity_path}/versions?limit=2")["versions"]
    )


@pytest.mark.parametrize("paths", [marquez_paths, v2_paths, page_paths])
def test_responses_are_the_same(backends: tuple[Shop, Shop], paths: Callable[[GetJson], Iterator[str]]) -> None:
    file, database = backends

    def get_json(path: str) -> Any:
        status, value = get_response(file, path)
        assert status == 200, value
        return value

    for path in dict.fromkeys(paths(get_json)):
        assert (path, get_response(database, path)) == (path, get_response(file, path))


def test_covers_every_path(backends: tuple[Shop, Shop]) -> None:
    def get_json(path: str) -> Any:
        return get_response(backends[0], path)[1]

    paths = [path.partition("?")[0].split("/")[2:] for path in (*marquez_paths(get_json), *v2_paths(get_json))]
    patterns = [path.pattern for path in read_routes(Path())]
    patterns += [tuple(operation.path.split("/")[2:]) for operation in OPERATIONS]
    for pattern in patterns:
        assert any(
            len(path) == len(pattern)
            and all(expected[0] in "*{" or expected == actual for expected, actual in zip(pattern, path, strict=True))
            for path in paths
        ), pattern
