"""Tests of `/api/v2`: operations, conditional requests and errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from clew.api.app import create_app
from clew.api.v2.routes import operation_routes
from clew.query.context import QueryResources


def create_client(resources: QueryResources) -> TestClient:
    app = create_app(operation_routes(resources))
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture
def shop(scenario: Any) -> Any:
    dataset_facets = {
        "orders": {
            "schema": {"fields": [{"name": "id"}, {"name": "price"}]},
            "documentation": {"description": "All purchases"},
        }
    }
    columns = {"orders": {"id": "raw.id", "price": "raw.price"}}
    for run in ("1", "2", "3"):
        scenario.run("load", "raw", "orders", run=run, columns=columns, dataset_facets=dataset_facets, rows=int(run))
    scenario.run("total", "orders", "totals", columns={"totals": {"sum": "orders.price", "": "orders.id!FILTER"}})
    scenario.index_events()
    return scenario


@pytest.fixture
def client(shop: Any, resources: QueryResources) -> Iterator[TestClient]:
    assert shop.index.is_file()
    with create_client(resources) as test_client:
        yield test_client


def get_json(client: TestClient, path: str, **parameters: Any) -> Any:
    response = client.get(f"/api/v2/{path}", params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


def test_lineage_of_a_dataset(client: TestClient) -> None:
    lineage = get_json(client, "lineage", nodeId="dataset:db:totals", direction="upstream")
    assert [(node["id"], node["distance"]) for node in lineage["nodes"]] == [
        ("dataset:db:totals", 0),
        ("job:jobs:total", -1),
        ("dataset:db:orders", -2),
        ("job:jobs:load", -3),
        ("dataset:db:raw", -4),
    ]
    assert {"from": "job:jobs:load", "to": "dataset:db:orders", "kind": "WRITE"} in lineage["edges"]
    assert lineage["indexedUpTo"]["position"] == 3


@pytest.mark.parametrize(
    "parameters", [{"nodeId": "datasetField:db:totals:sum"}, {"nodeId": "dataset:db:totals", "column": "sum"}]
)
def test_lineage_of_a_column(client: TestClient, parameters: dict[str, str]) -> None:
    lineage = get_json(client, "lineage", direction="upstream", **parameters)
    nodes = [(node["name"], node["column"], node["dependencyType"]) for node in lineage["nodes"]]
    assert nodes == [
        ("totals", "sum", "DIRECT"),
        ("orders", "price", "DIRECT"),
        ("orders", "id", "INDIRECT"),
        ("raw", "price", "DIRECT"),
    ]
    before = get_json(client, "lineage", direction="upstream", asOf="2026-01-01T10:02:30Z", **parameters)
    assert len(before["nodes"]) == 1
    after = get_json(client, "lineage", direction="upstream", asOf="2026-01-01T11:00:00+00:00", **parameters)
    assert {node["id"] for node in after["nodes"]} == {node["id"] for node in lineage["nodes"]}


def test_lineage_of_a_run(client: TestClient, shop: Any) -> None:
    last = shop.events[-1]["run"]["runId"]
    lineage = get_json(client, "lineage", nodeId=f"run:{last}", direction="upstream")
    assert [node["id"] for node in lineage["nodes"]] == [f"run:{last}", f"run:{shop.run_id('3')}"]
    assert lineage["edges"][0]["dataset"] == "dataset:db:orders"


def test_path_in_either_direction(client: TestClient) -> None:
    path = get_json(client, "path", **{"from": "dataset:db:totals", "to": "dataset:db:raw"})
    assert path["direction"] == "upstream"
    assert [node["name"] for node in path["nodes"]] == ["raw", "load", "orders", "total", "totals"]


def test_impact_of_a_column(client: TestClient) -> None:
    impact = get_json(client, "impact", nodeId="dataset:db:raw", column="id")
    affected = [
        (dataset["dataset"]["name"], dataset["distance"], dataset["dependencyType"], dataset["jobs"])
        for dataset in impact["affected"]
    ]
    assert affected == [("orders", 1, "DIRECT", ["job:jobs:load"]), ("totals", 2, "INDIRECT", ["job:jobs:total"])]
    assert (impact["direct"], impact["indirect"]) == (1, 1)


def test_documents_and_paged_lists(client: TestClient, shop: Any) -> None:
    assert get_json(client, "dataset", nodeId="dataset:db:orders")["description"] == "All purchases"
    assert get_json(client, "job", nodeId="job:jobs:load")["latestRun"]["id"] == shop.run_id("3")
    assert get_json(client, f"runs/{shop.run_id('2')}")["outputs"][0]["rowCount"] == 2
    page = get_json(client, "runs", nodeId="job:jobs:load", limit=1)
    run_ids = [run["id"] for run in page["runs"]]
    while page["next"] is not None:
        page = get_json(client, "runs", nodeId="job:jobs:load", limit=1, cursor=page["next"])
        run_ids += [run["id"] for run in page["runs"]]
    assert sorted(run_ids) == sorted(shop.run_id(name) for name in "123")
    first = get_json(client, "datasets", limit=2)
    rest = get_json(client, "datasets", cursor=first["next"])
    assert [item["name"] for item in (*first["datasets"], *rest["datasets"])] == ["orders", "raw", "totals"]
    assert rest["next"] is None
    assert [item["name"] for item in get_json(client, "jobs", namespace="jobs")["jobs"]] == ["load", "total"]


def test_search_facets_and_diffs(client: TestClient, shop: Any) -> None:
    assert get_json(client, "search", q="purch")["hits"][0]["id"] == "dataset:db:orders"
    assert get_json(client, "facets", nodeId="dataset:db:orders", name="documentation")["facets"] == {
        "documentation": {"description": "All purchases"}
    }
    diff = get_json(client, "diff", left=f"run:{shop.run_id('1')}", right=f"run:{shop.run_id('3')}")
    assert diff["runs"]["outputs"]["changed"][0]["rowCount"] == {"left": 1, "right": 3}
    assert get_json(client, "diff", nodeId="dataset:db:orders")["versions"]["difference"]["rowCount"]["right"] == 3


def test_conditional_request_is_304_until_a_change(client: TestClient, shop: Any) -> None:
    url = "/api/v2/dataset?nodeId=dataset:db:orders"
    etag = client.get(url).headers["etag"]
    assert client.get(url, headers={"if-none-match": etag}).status_code == 304
    shop.dataset("orders", documentation={"description": "Other"})
    shop.index_events()
    assert client.get(url, headers={"if-none-match": etag}).status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("lineage", 400, "Missing parameter 'nodeId'"),
        ("lineage?nodeId=dataset:db:order", 404, "Did you mean db:orders"),
        ("lineage?nodeId=dataset", 400, "is not a node id"),
        ("lineage?nodeId=postgres://a:1:b", 400, "is not a node id"),
        ("lineage?nodeId=dataset:db:orders&depth=1000000000", 400, "a number from 0 to 100"),
        ("lineage?nodeId=dataset:db:orders&limit=-1", 400, "a number from 1 to"),
        (
            "lineage?nodeId=dataset:db:orders&depth=1e3",
            400,
            "Invalid value '1e3' for depth. Use a number from 0 to 100.",
        ),
        (
            "lineage?nodeId=dataset:db:orders&direction=sideways",
            400,
            "Invalid value 'sideways' for direction. Use one of both, downstream, upstream.",
        ),
        ("lineage?nodeId=dataset:db:orders&frames=yes", 400, "Invalid value 'yes' for frames. Use true or false."),
        ("lineage?nodeId=dataset:db:orders&asOf=2999-01-01T00:00:00Z", 400, "a time in the past"),
        (
            "lineage?nodeId=dataset:db:orders&asOf=yesterday",
            400,
            "Invalid value 'yesterday' for asOf. Use a time such as",
        ),
        ("lineage?nodeId=dataset:db:orders&asOf=2026-01-01T11:00:00%2B02:00&other=1", 400, "Valid parameters: asOf, "),
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
        ("runs?nodeId=job:jobs:load&cursor=WyJ4Il0=", 400, "a previous response of the same list"),
        ("runs?nodeId=job:jobs:load&cursor=%F0", 400, "the value of next from a previous response"),
        ("search?q=", 400, "Invalid value '' for q. Use a string of 1 to 4096 characters without NUL."),
        ("search?q=a%00b", 400, "for q. Use a string of 1 to 4096 characters without NUL."),
        ("search?q=a&kind=run", 400, "Invalid value 'run' for kind. Use one of dataset, job."),
        ("status?verbose=1", 400, "Valid parameters: none."),
        ("search?q=orders&cursor=WzFd", 200, ""),
        ("facets/history?nodeId=dataset:db:orders&name=schema", 503, "There is no lake"),
        ("facets?nodeId=dataset:db:orders&version=9", 404, "There is no version of orders"),
        ("diff?left=run:a", 400, "A diff needs two runs"),
        ("diff?left=run:a&right=run:b", 404, "There is no run"),
        ("diff?nodeId=job:jobs:load", 400, "Only datasets have versions"),
        ("nothing", 404, ""),
    ],
)
def test_rejects_an_invalid_request(client: TestClient, path: str, status: int, text: str) -> None:
    response = client.get(f"/api/v2/{path}")
    assert response.status_code == status, response.text
    if status != 200:
        assert response.headers["content-type"] == "application/problem+json"
        assert text in f"{response.json()['title']} {response.json()['detail']}"


def test_a_missing_index_is_503(scenario: Any, resources: QueryResources) -> None:
    with create_client(resources) as client:
        assert client.get("/api/v2/status").status_code == 503
        scenario.run("load", "raw", "orders")
        scenario.index_events()
        assert client.get("/api/v2/lineage?nodeId=dataset:db:raw").status_code == 200
        for suffix in ("", "-wal", "-shm"):
            scenario.index.with_name(scenario.index.name + suffix).unlink(missing_ok=True)
        assert client.get("/api/v2/lineage?nodeId=dataset:db:raw").status_code == 503


def test_a_locked_index_is_503(shop: Any, resources: QueryResources) -> None:
    with create_client(resources) as client:
        writer = sqlite3.connect(shop.index, isolation_level=None)
        try:
            writer.execute("pragma journal_mode = delete")
            writer.execute("begin exclusive")
            response = client.get("/api/v2/status")
        finally:
            writer.close()
        assert response.status_code == 503
        assert "locked" in response.json()["title"]
        assert client.get("/api/v2/status").status_code == 200


def test_a_rebuilt_index_replaces_cached_data(shop: Any, resources: QueryResources) -> None:
    with create_client(resources) as client:
        assert len(get_json(client, "lineage", nodeId="dataset:db:raw")["nodes"]) == 5
        for suffix in ("", "-wal", "-shm"):
            shop.index.with_name(shop.index.name + suffix).unlink(missing_ok=True)
        rebuilt = type(shop)(shop.index.parent)
        rebuilt.run("load", "raw", "orders")
        rebuilt.index_events()
        assert len(get_json(client, "lineage", nodeId="dataset:db:raw")["nodes"]) == 3
        assert get_json(client, "search", q="totals")["total"] == 0
