"""`/api/v2`: questions over HTTP, and what becomes of bad ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from clew.api.app import create_app
from clew.api.v2.routes import operation_routes
from clew.query.context import QueryResources
from clew.query.service import NotebookService


def client_of(index: Path, holdings: QueryResources) -> TestClient:
    app = create_app(lambda: NotebookService(index), operation_routes(holdings))
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture
def shop(world: Any) -> Any:
    described = {
        "orders": {
            "schema": {"fields": [{"name": "id"}, {"name": "price"}]},
            "documentation": {"description": "All purchases"},
        }
    }
    columns = {"orders": {"id": "raw.id", "price": "raw.price"}}
    for run in ("1", "2", "3"):
        world.run("load", "raw", "orders", run=run, columns=columns, dataset_facets=described, rows=int(run))
    world.run("total", "orders", "totals", columns={"totals": {"sum": "orders.price", "": "orders.id!FILTER"}})
    world.tell()
    return world


@pytest.fixture
def client(shop: Any, holdings: QueryResources) -> Iterator[TestClient]:
    with client_of(shop.index, holdings) as made:
        yield made


def asked(client: TestClient, path: str, **parameters: Any) -> Any:
    answer = client.get(f"/api/v2/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_lineage_of_a_dataset(client: TestClient) -> None:
    found = asked(client, "lineage", nodeId="dataset:db:totals", direction="upstream")
    assert [(node["id"], node["distance"]) for node in found["nodes"]] == [
        ("dataset:db:totals", 0),
        ("job:jobs:total", -1),
        ("dataset:db:orders", -2),
        ("job:jobs:load", -3),
        ("dataset:db:raw", -4),
    ]
    assert {"from": "job:jobs:load", "to": "dataset:db:orders", "kind": "WRITE"} in found["edges"]
    assert found["indexedUpTo"]["position"] == 3


@pytest.mark.parametrize(
    "parameters", [{"nodeId": "datasetField:db:totals:sum"}, {"nodeId": "dataset:db:totals", "column": "sum"}]
)
def test_lineage_of_a_column(client: TestClient, parameters: dict[str, str]) -> None:
    found = asked(client, "lineage", direction="upstream", **parameters)
    told = [(node["name"], node["column"], node["dependencyType"]) for node in found["nodes"]]
    assert told == [
        ("totals", "sum", "DIRECT"),
        ("orders", "price", "DIRECT"),
        ("orders", "id", "INDIRECT"),
        ("raw", "price", "DIRECT"),
    ]
    before = asked(client, "lineage", direction="upstream", asOf="2026-01-01T10:02:30Z", **parameters)
    assert len(before["nodes"]) == 1
    since = asked(client, "lineage", direction="upstream", asOf="2026-01-01T11:00:00+00:00", **parameters)
    assert {node["id"] for node in since["nodes"]} == {node["id"] for node in found["nodes"]}


def test_lineage_of_a_run(client: TestClient, shop: Any) -> None:
    last = shop.events[-1]["run"]["runId"]
    found = asked(client, "lineage", nodeId=f"run:{last}", direction="upstream")
    assert [node["id"] for node in found["nodes"]] == [f"run:{last}", f"run:{shop.run_id('3')}"]
    assert found["edges"][0]["dataset"] == "dataset:db:orders"


def test_the_way_between_two_nodes_whichever_way_it_goes(client: TestClient) -> None:
    found = asked(client, "path", **{"from": "dataset:db:totals", "to": "dataset:db:raw"})
    assert found["direction"] == "upstream"
    assert [node["name"] for node in found["nodes"]] == ["raw", "load", "orders", "total", "totals"]


def test_what_a_column_breaks(client: TestClient) -> None:
    found = asked(client, "impact", nodeId="dataset:db:raw", column="id")
    told = [(one["dataset"]["name"], one["distance"], one["dependencyType"], one["jobs"]) for one in found["affected"]]
    assert told == [("orders", 1, "DIRECT", ["job:jobs:load"]), ("totals", 2, "INDIRECT", ["job:jobs:total"])]
    assert (found["direct"], found["indirect"]) == (1, 1)


def test_documents_and_pages(client: TestClient, shop: Any) -> None:
    assert asked(client, "dataset", nodeId="dataset:db:orders")["description"] == "All purchases"
    assert asked(client, "job", nodeId="job:jobs:load")["latestRun"]["id"] == shop.run_id("3")
    assert asked(client, f"runs/{shop.run_id('2')}")["outputs"][0]["rowCount"] == 2
    page = asked(client, "runs", nodeId="job:jobs:load", limit=1)
    pages = [run["id"] for run in page["runs"]]
    while page["next"] is not None:
        page = asked(client, "runs", nodeId="job:jobs:load", limit=1, cursor=page["next"])
        pages += [run["id"] for run in page["runs"]]
    assert sorted(pages) == sorted(shop.run_id(name) for name in "123")
    first = asked(client, "datasets", limit=2)
    rest = asked(client, "datasets", cursor=first["next"])
    assert [one["name"] for one in (*first["datasets"], *rest["datasets"])] == ["orders", "raw", "totals"]
    assert rest["next"] is None
    assert [one["name"] for one in asked(client, "jobs", namespace="jobs")["jobs"]] == ["load", "total"]


def test_search_facets_and_differences(client: TestClient, shop: Any) -> None:
    assert asked(client, "search", q="purch")["hits"][0]["id"] == "dataset:db:orders"
    assert asked(client, "facets", nodeId="dataset:db:orders", name="documentation")["facets"] == {
        "documentation": {"description": "All purchases"}
    }
    diff = asked(client, "diff", left=f"run:{shop.run_id('1')}", right=f"run:{shop.run_id('3')}")
    assert diff["runs"]["outputs"]["changed"][0]["rowCount"] == {"left": 1, "right": 3}
    assert asked(client, "diff", nodeId="dataset:db:orders")["versions"]["difference"]["rowCount"]["right"] == 3


def test_who_has_the_answer_already_is_not_sent_it_again(client: TestClient, shop: Any) -> None:
    url = "/api/v2/dataset?nodeId=dataset:db:orders"
    tag = client.get(url).headers["etag"]
    assert client.get(url, headers={"if-none-match": tag}).status_code == 304
    shop.dataset("orders", documentation={"description": "Other"})
    shop.tell()
    assert client.get(url, headers={"if-none-match": tag}).status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("lineage", 400, "Missing parameter 'nodeId'"),
        ("lineage?nodeId=dataset:db:order", 404, "Did you mean db:orders"),
        ("lineage?nodeId=dataset", 400, "is not a node id"),
        ("lineage?nodeId=postgres://a:1:b", 400, "is not a node id"),
        ("lineage?nodeId=dataset:db:orders&depth=1000000000", 400, "a number from 0 to 100"),
        ("lineage?nodeId=dataset:db:orders&limit=-1", 400, "a number from 1 to"),
        ("lineage?nodeId=dataset:db:orders&depth=1e3", 400, "for depth"),
        ("lineage?nodeId=dataset:db:orders&direction=sideways", 400, "one of upstream, downstream, both"),
        ("lineage?nodeId=dataset:db:orders&asOf=2999-01-01T00:00:00Z", 400, "a time in the past"),
        ("lineage?nodeId=dataset:db:orders&asOf=yesterday", 400, "a time such as"),
        ("lineage?nodeId=dataset:db:orders&derection=both", 400, "Did you mean direction"),
        ("lineage?nodeId=dataset:db:orders&column=prise", 404, "Did you mean price"),
        ("lineage?nodeId=job:jobs:load&column=price", 400, "A job has no columns"),
        ("lineage?nodeId=datasetField:db:orders:prise", 404, "Did you mean price"),
        ("lineage?nodeId=run:none", 404, "There is no run"),
        ("lineage?nodeId=run:none&asOf=2026-01-01", 400, "Omit asOf"),
        ("path?from=dataset:db:orders", 400, "Missing parameter 'to'"),
        ("impact?nodeId=job:jobs:load", 400, "A job has no columns"),
        ("dataset?nodeId=job:jobs:load", 400, "Use /api/v2/job."),
        ("runs/none", 404, "There is no run"),
        ("runs?nodeId=job:jobs:load&cursor=WyJ4Il0=", 400, "a cursor of the same list"),
        ("runs?nodeId=job:jobs:load&cursor=%F0", 400, "the value of next from a previous response"),
        ("search?q=", 400, "a string of 1 to"),
        ("search?q=orders&cursor=WzFd", 200, ""),
        ("facets/history?nodeId=dataset:db:orders&name=schema", 503, "There is no lake"),
        ("facets?nodeId=dataset:db:orders&version=9", 404, "There is no version of orders"),
        ("diff?left=run:a", 400, "A diff needs two runs"),
        ("diff?left=run:a&right=run:b", 404, "There is no run"),
        ("diff?nodeId=job:jobs:load", 400, "Only datasets have versions"),
        ("nothing", 404, ""),
    ],
)
def test_bad_questions_are_told_what_is_wrong(client: TestClient, path: str, status: int, words: str) -> None:
    answer = client.get(f"/api/v2/{path}")
    assert answer.status_code == status, answer.text
    if status != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert words in f"{answer.json()['title']} {answer.json()['detail']}"


def test_without_an_index_and_while_it_is_built_anew(world: Any, holdings: QueryResources) -> None:
    with client_of(world.index, holdings) as client:
        assert client.get("/api/v2/status").status_code == 503
        world.run("load", "raw", "orders")
        world.tell()
        assert client.get("/api/v2/lineage?nodeId=dataset:db:raw").status_code == 200
        for ending in ("", "-wal", "-shm"):
            world.index.with_name(world.index.name + ending).unlink(missing_ok=True)
        assert client.get("/api/v2/lineage?nodeId=dataset:db:raw").status_code == 503


def test_a_locked_index_is_said_to_be_so(shop: Any, holdings: QueryResources) -> None:
    with client_of(shop.index, holdings) as client:
        writer = sqlite3.connect(shop.index, isolation_level=None)
        try:
            writer.execute("pragma journal_mode = delete")
            writer.execute("begin exclusive")
            answer = client.get("/api/v2/status")
        finally:
            writer.close()
        assert answer.status_code == 503
        assert "locked" in answer.json()["title"]
        assert client.get("/api/v2/status").status_code == 200


def test_an_index_that_is_built_anew_is_another(shop: Any, holdings: QueryResources) -> None:
    with client_of(shop.index, holdings) as client:
        assert len(asked(client, "lineage", nodeId="dataset:db:raw")["nodes"]) == 5
        for ending in ("", "-wal", "-shm"):
            shop.index.with_name(shop.index.name + ending).unlink(missing_ok=True)
        fresh = type(shop)(shop.index.parent)
        fresh.run("load", "raw", "orders")
        fresh.tell()
        assert len(asked(client, "lineage", nodeId="dataset:db:raw")["nodes"]) == 3
        assert asked(client, "search", q="totals")["total"] == 0
