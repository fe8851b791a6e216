"""Whatever is asked, an index in PostgreSQL answers as one in a file does: every path, with names from the answers."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from tests.support.fixtures import Clock, Session
from tests.support.paths import ROOT
from tests.unit.api.marquez.conftest import Shop

from clew.api.marquez.app import READ_ROUTES
from clew.api.v2.routes import OPERATIONS

TESTS = ROOT / "tests"
GENERATE = runpy.run_path(str(TESTS.parent / "bench" / "generate.py"))
WAREHOUSE = runpy.run_path(str(TESTS / "e2e" / "page" / "shop.py"))
CASES = sorted((TESTS / "cases" / "pipeline").glob("*/events.ndjson"))
# Of each kind of thing so many are asked about, chosen by chance, but always the same.
SOME = 6

Ask = Callable[[str], Any]


def bodies() -> Iterator[bytes]:
    """Events of all kinds: golden cases, a shop of two weeks, a notebook, and generated ones."""
    for case in CASES:
        yield from case.read_bytes().splitlines()
    yield from (json.dumps(event).encode() for event in islice(WAREHOUSE["events"](), 120))
    yield from islice(GENERATE["events"](10_000, 7), 120)
    clock = Clock()
    for session in (Session(clock, "5eed0001", "orders"), Session(clock, "5eed0002", "orders")):
        session.run("START")
        session.operation("load", "df@1", {"price": [("orders.csv", "price")]}, code="pd.read_csv('Orders.csv')")
        session.operation("save", "totals.parquet", {"Sum": [("df@1", "price", "AGGREGATION")]}, error="'ÉCOLE'")
        session.run("COMPLETE")
        yield from (json.dumps(event).encode() for _, event in session.events)


@pytest.fixture(scope="module")
def both(postgres_places: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shop, Shop]]:
    """One log, taken into a file and into a database."""
    root = tmp_path_factory.mktemp("same") / "home"
    file, database = Shop(root), Shop(root, postgres_places.empty("answers"))
    file.send(dict.fromkeys(bodies()))
    database.take()
    with file.client, database.client:
        for shop in (file, database):
            take_in_words(shop)
            shop.ask("POST", "/namespaces/shop/jobs/daily.load/tags/GOLD", 404)
            shop.ask("PUT", "/tags/GOLD", body={"description": "best"})
        yield file, database


def take_in_words(shop: Shop) -> None:
    """Ask until all of the index is found: on a slow machine that is a little later."""
    assert any(shop.client.get("/api/v2/search?q=a").json()["isComplete"] for _ in range(10_000))


def asked(shop: Shop, path: str) -> tuple[int, Any]:
    answer = shop.client.get(path)
    value = answer.json() if answer.content else None
    if isinstance(value, dict):
        # When and by whom an index was written is its own.
        value.pop("indexedUpTo", None)
        value.pop("indexedAt", None)
    return answer.status_code, value


def marquez_paths(ask: Ask) -> Iterator[str]:
    """Each path of Marquez's that reads, for some of what there is."""
    spaces = [one["name"] for one in ask("/api/v1/namespaces?limit=1000")["namespaces"]]
    jobs = chosen(ask("/api/v1/jobs?limit=1000")["jobs"])
    datasets = [
        one for space in spaces for one in ask(f"/api/v1/namespaces/{part(space)}/datasets?limit=1000")["datasets"]
    ]
    yield from filled("v1/namespaces/*", spaces)
    yield from filled("v1/namespaces/*/jobs", spaces)
    yield from filled("v1/namespaces/*/datasets", spaces)
    yield from filled("v1/sources/*", [one["name"] for one in ask("/api/v1/sources")["sources"]])
    for job in jobs:
        own, node = f"/api/v1/namespaces/{part(job['namespace'])}/jobs/{part(job['name'])}", marquez_id("job", job)
        yield from (own, f"{own}/runs?limit=3", f"{own}/versions", *versions(ask, own))
        yield from (f"/api/v1/lineage?{node}&depth=2", f"/api/v1/column-lineage?{node}")
        for run in ask(f"{own}/runs?limit=2")["runs"]:
            whole = f"/api/v1/jobs/runs/{run['id']}"
            yield from (whole, f"{whole}/facets?type=run", f"{whole}/facets?type=job")
            yield f"/api/v1/runlineage/upstream?runId={run['id']}"
    for dataset in chosen(datasets):
        own = f"/api/v1/namespaces/{part(dataset['namespace'])}/datasets/{part(dataset['name'])}"
        node = marquez_id("dataset", dataset)
        yield from (own, f"{own}/versions?limit=3&offset=1", *versions(ask, own))
        yield from (f"/api/v1/lineage?{node}", f"/api/v1/column-lineage?{node}&withDownstream=true")
    yield from (f"/api/{'/'.join(path.pattern)}" for path in READ_ROUTES if "*" not in path.pattern)
    yield from ("/api/v1/namespaces/%00/jobs", "/api/v1/namespaces/%00/datasets/%00", "/api/v1/jobs/runs/%00")
    yield from ("/api/v1/jobs?lastRunStates=FAILED&lastRunStates=NEW", "/api/v1/jobs?limit=3&offset=2")
    yield from (f"/api/v1/events/lineage?limit=20&sortDirection={way}" for way in ("asc", "desc"))
    yield from (f"/api/v1/search?q={word}&sort=update_at&limit=50" for word in ("o", "ORDERS", "%25", "_", "É", "%00"))
    yield from (f"/api/v1/search?q=o&filter={kind}&before=2026-01-01" for kind in ("job", "dataset"))
    yield from (f"/api/v2beta/search/{kind}?q=orders" for kind in ("jobs", "datasets"))
    yield from (f"/api/v1/stats/{kind}?period=WEEK&timezone=Asia/Tokyo" for kind in ("lineage-events", "jobs"))
    yield from (f"/api/v1/stats/{kind}?period=DAY" for kind in ("datasets", "sources"))


def question_paths(ask: Ask) -> Iterator[str]:
    """Each question of `/api/v2`, likewise."""
    jobs = chosen(ask("/api/v2/jobs?limit=500")["jobs"])
    datasets = chosen(ask("/api/v2/datasets?limit=500")["datasets"])
    yield from ("/api/v2/jobs?limit=3", "/api/v2/datasets?limit=3", "/api/v2/notebook-runs", "/api/v2/status")
    yield from ("/api/v2/notebook-runs/latest?column=totals.parquet.Sum", "/api/v2/notebook-runs/5eed0001")
    yield from (f"/api/v2/search?q={word}" for word in ("orders", "5eed", "gold", "nothing"))
    for one in (*jobs, *datasets):
        node = urlencode({"nodeId": one["id"]})
        kind = one["id"].partition(":")[0]
        yield from (f"/api/v2/{kind}?{node}", f"/api/v2/impact?{node}", f"/api/v2/facets?{node}")
        yield f"/api/v2/facets/history?{node}&name=schema"
        yield from (f"/api/v2/lineage?{node}&direction={way}&depth=3&frames=true" for way in ("upstream", "both"))
        yield f"/api/v2/lineage?{node}&rollUp=parent&asOf=2026-01-01T10:03:00Z"
        if kind == "job":
            yield f"/api/v2/runs?{node}&limit=2"
            runs = [run["id"] for run in ask(f"/api/v2/runs?{node}&limit=2")["runs"]]
            yield from (f"/api/v2/runs/{run}" for run in runs)
            yield from (f"/api/v2/diff?left={left}&right={right}" for left, right in pairwise(runs))
        else:
            yield f"/api/v2/diff?{node}"
            yield f"/api/v2/path?{urlencode({'from': datasets[0]['id'], 'to': one['id']})}"


def page_paths(ask: Ask) -> Iterator[str]:
    """Each view of the page, likewise."""
    root = "/api/v2/pages"
    yield f"{root}/activity"
    for kind in ("datasets", "jobs", "runs"):
        yield from (f"{root}/{kind}?limit=50&text={word}" for word in ("", "Order", "É", "%25", "%00"))
    yield from (f"{root}/runs?state={state}" for state in ("FAILED", "RUNNING"))
    yield from (f"{root}/search?text={word}" for word in ("order", "PRICE", "to_", "read_csv", "0", "É", "%25"))
    yield from (f"{root}/changes/5eed0002", f"{root}/changes/5eed0001")
    for kind in ("dataset", "job"):
        for one in chosen(ask(f"{root}/{kind}s?limit=500")["items"]):
            name = urlencode({key: one[kind][key] for key in ("namespace", "name")})
            node = part(f"{kind}/{part(one[kind]['namespace'])}/{part(one[kind]['name'])}")
            yield from (f"{root}/{kind}?{name}", f"{root}/graph?node={node}&depth=2&group=1")
            yield from (f"{root}/graph?node={node}&open=up%3A{node}", f"{root}/graph?node={node}&asOf=2026-01-01")
    runs = [one["runUuid"] for one in chosen(ask(f"{root}/runs?limit=500")["items"])]
    yield from (f"{root}/run/{run}" for run in runs)
    yield f"{root}/diff?before={runs[0]}&after={runs[1]}"


def chosen(found: list[Any]) -> list[Any]:
    return Random(7).sample(found, min(SOME, len(found)))


def part(text: str) -> str:
    return quote(text, safe="")


def filled(pattern: str, names: list[str]) -> Iterator[str]:
    return (f"/api/{pattern.replace('*', part(name))}" for name in names)


def marquez_id(kind: str, one: Any) -> str:
    return urlencode({"nodeId": f"{kind}:{one['namespace']}:{one['name']}"})


def versions(ask: Ask, own: str) -> Iterator[str]:
    return (f"{own}/versions/{one['version']}" for one in ask(f"{own}/versions?limit=2")["versions"])


@pytest.mark.parametrize("paths", [marquez_paths, question_paths, page_paths])
def test_answers_are_the_same(both: tuple[Shop, Shop], paths: Callable[[Ask], Iterator[str]]) -> None:
    file, database = both

    def ask(path: str) -> Any:
        status, value = asked(file, path)
        assert status == 200, value
        return value

    for path in dict.fromkeys(paths(ask)):
        assert (path, asked(database, path)) == (path, asked(file, path))


def test_every_path_is_asked(both: tuple[Shop, Shop]) -> None:
    def ask(path: str) -> Any:
        return asked(both[0], path)[1]

    paths = [path.partition("?")[0].split("/")[2:] for path in (*marquez_paths(ask), *question_paths(ask))]
    wanted = [path.pattern for path in READ_ROUTES]
    wanted += [tuple(operation.path.split("/")[2:]) for operation in OPERATIONS]
    for pattern in wanted:
        assert any(
            len(path) == len(pattern)
            and all(one[0] in "*{" or one == two for one, two in zip(pattern, path, strict=True))
            for path in paths
        ), pattern
