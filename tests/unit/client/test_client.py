"""Tests of `clew.Client` and `clew.AsyncClient` with the real application."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from tests.support.paths import DOCS

import clew
from clew.api.app import create_app
from clew.api.v2.routes import OPERATIONS, operation_routes
from clew.client import ApiError, requests
from clew.query.context import QueryResources
from clew.query.lineage import LineageResult

PAGE = DOCS / "client.md"
TOTALS, ORDERS = "dataset:db:totals", "dataset:db:orders"


@pytest.fixture
def app(scenario: Any, resources: QueryResources) -> Starlette:
    columns = {"orders": {"id": "raw.id", "price": "raw.price"}}
    for run in ("1", "2"):
        scenario.run("load", "raw", "orders", run=run, columns=columns)
    scenario.run("total", "orders", "totals", columns={"totals": {"sum": "orders.price"}})
    scenario.index_events()
    return create_app(operation_routes(resources))


@pytest.fixture
def client(app: Starlette) -> Iterator[clew.Client]:
    http: Any = TestClient(app)
    with clew.Client("http://testserver/", http=http) as api_client:
        yield api_client


def test_results_are_typed(client: clew.Client) -> None:
    lineage = client.lineage(TOTALS, direction="upstream")
    assert isinstance(lineage, LineageResult)
    assert [node.id for node in lineage.nodes][-1] == "dataset:db:raw"
    assert client.lineage(TOTALS, "sum", direction="upstream").nodes[1].column == "price"
    assert [node.kind for node in client.path("dataset:db:raw", TOTALS).nodes] == [
        "dataset", "job", "dataset", "job", "dataset"
    ]  # fmt: skip
    assert [affected.dataset.name for affected in client.impact(ORDERS, "price").affected] == ["totals"]


def test_entities_and_paged_lists(client: clew.Client) -> None:
    assert client.dataset(ORDERS).written_by[0].name == "load"
    latest = client.job("job:jobs:load").latest_run
    assert latest is not None
    assert client.run(latest.id).state == latest.state
    first = client.datasets(limit=2)
    assert (len(first.datasets), len(client.datasets(limit=2, cursor=first.next).datasets)) == (2, 1)
    assert {job.name for job in client.jobs().jobs} == {"load", "total"}
    assert len(client.runs("job:jobs:load").runs) == 2
    assert client.search("totals").hits[0].id == TOTALS
    assert client.diff(node_id=ORDERS).versions is not None
    assert client.facets(ORDERS).id == ORDERS
    assert client.status().indexed_up_to.position > 0


def test_async_client_returns_the_same_results(app: Starlette, client: clew.Client) -> None:
    async def run_requests() -> tuple[LineageResult, int]:
        http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app))
        async with clew.AsyncClient("http://testserver", http=http) as async_client:
            lineage, jobs = await asyncio.gather(async_client.lineage(TOTALS), async_client.jobs())
            return lineage, len(jobs.jobs)

    assert asyncio.run(run_requests()) == (client.lineage(TOTALS), 2)


@pytest.mark.parametrize(
    ("api_request", "status", "message"),
    [
        (
            requests.dataset_request("dataset:db:ordres"),
            404,
            r"There is no dataset 'db:ordres'\.\nDid you mean db:orders,",
        ),
        (requests.dataset_request("orders"), 400, "is not a node id"),
        (requests.lineage_request(TOTALS, depth=-1), 400, "depth"),
    ],
)
def test_server_error_is_raised_with_its_message(
    api_request: Any, status: int, message: str, client: clew.Client
) -> None:
    with pytest.raises(ApiError, match=message) as error:
        client.send(api_request)
    assert error.value.status == status


def test_unreachable_server_is_an_api_error() -> None:
    with clew.Client("http://127.0.0.1:1") as client, pytest.raises(ApiError, match="Start it with `clew serve`"):
        client.status()


def test_undecodable_response_is_an_api_error() -> None:
    with pytest.raises(ApiError, match=r"Cannot decode the response .*\nThe server may have another version"):
        requests.status_request().decode_response(200, b"{}")
    with pytest.raises(ApiError, match="status 502"):
        requests.status_request().decode_response(502, b"<html>")


def test_every_operation_has_a_method() -> None:
    functions = {name: getattr(requests, name) for name in dir(requests) if inspect.isfunction(getattr(requests, name))}
    names = {name.removesuffix("_request") for name in functions if name.endswith("_request")}
    camel_case_names = {
        "".join(part.title() if position else part for position, part in enumerate(name.split("_"))) for name in names
    }
    assert camel_case_names == {operation.name for operation in OPERATIONS}
    assert all(hasattr(clew.Client, name) and hasattr(clew.AsyncClient, name) for name in names)


def test_documented_example_is_current(orders: Any) -> None:
    example = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    command = [sys.executable, "-m", "clew", "serve", "--port", "0", "--home", str(orders.index.parent)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            (address,) = re.findall(r"http://[\d.:]+", server.stderr.readline())
            code = example[1].replace("http://127.0.0.1:8777", address)
            process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        finally:
            server.terminate()
            server.communicate()
    assert process.stdout == example[2], process.stderr
