"""`clew.Client` and `clew.AsyncClient`, over the real application."""

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
from clew.query.service import NotebookService

PAGE = DOCS / "client.md"
TOTALS, ORDERS = "dataset:db:totals", "dataset:db:orders"


@pytest.fixture
def app(world: Any, holdings: QueryResources) -> Starlette:
    columns = {"orders": {"id": "raw.id", "price": "raw.price"}}
    for run in ("1", "2"):
        world.run("load", "raw", "orders", run=run, columns=columns)
    world.run("total", "orders", "totals", columns={"totals": {"sum": "orders.price"}})
    world.tell()
    return create_app(lambda: NotebookService(world.index), operation_routes(holdings))


@pytest.fixture
def client(app: Starlette) -> Iterator[clew.Client]:
    http: Any = TestClient(app)
    with clew.Client("http://testserver/", http=http) as made:
        yield made


def test_answers_are_typed(client: clew.Client) -> None:
    found = client.lineage(TOTALS, direction="upstream")
    assert isinstance(found, LineageResult)
    assert [node.id for node in found.nodes][-1] == "dataset:db:raw"
    assert client.lineage(TOTALS, "sum", direction="upstream").nodes[1].column == "price"
    assert [node.kind for node in client.path("dataset:db:raw", TOTALS).nodes] == [
        "dataset", "job", "dataset", "job", "dataset"
    ]  # fmt: skip
    assert [one.dataset.name for one in client.impact(ORDERS, "price").affected] == ["totals"]


def test_entities_and_pages(client: clew.Client) -> None:
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


def test_in_asyncio_the_same_is_answered(app: Starlette, client: clew.Client) -> None:
    async def ask() -> tuple[LineageResult, int]:
        http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app))
        async with clew.AsyncClient("http://testserver", http=http) as asynchronous:
            found, jobs = await asyncio.gather(asynchronous.lineage(TOTALS), asynchronous.jobs())
            return found, len(jobs.jobs)

    assert asyncio.run(ask()) == (client.lineage(TOTALS), 2)


@pytest.mark.parametrize(
    ("question", "status", "sentence"),
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
def test_what_a_server_refuses_is_an_error_in_its_words(
    question: Any, status: int, sentence: str, client: clew.Client
) -> None:
    with pytest.raises(ApiError, match=sentence) as refused:
        client.send(question)
    assert refused.value.status == status


def test_a_server_that_is_not_there_is_a_sentence() -> None:
    with clew.Client("http://127.0.0.1:1") as client, pytest.raises(ApiError, match="Start it with `clew serve`"):
        client.status()


def test_an_answer_that_cannot_be_read_is_a_sentence() -> None:
    with pytest.raises(ApiError, match=r"Cannot decode the response .*\nThe server may have another version"):
        requests.status_request().decode_response(200, b"{}")
    with pytest.raises(ApiError, match="status 502"):
        requests.status_request().decode_response(502, b"<html>")


def test_there_is_a_method_for_every_operation() -> None:
    made = {name: getattr(requests, name) for name in dir(requests) if inspect.isfunction(getattr(requests, name))}
    names = {name.removesuffix("_request") for name in made if name.endswith("_request")}
    in_camels = {
        "".join(part.title() if place else part for place, part in enumerate(name.split("_"))) for name in names
    }
    assert in_camels == {operation.name for operation in OPERATIONS}
    assert all(hasattr(clew.Client, name) and hasattr(clew.AsyncClient, name) for name in names)


def test_the_page_shows_what_a_server_answers(orders: Any) -> None:
    found = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    served = [sys.executable, "-m", "clew", "serve", "--port", "0", "--home", str(orders.index.parent)]
    with subprocess.Popen(served, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            (address,) = re.findall(r"http://[\d.:]+", server.stderr.readline())
            code = found[1].replace("http://127.0.0.1:8777", address)
            ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        finally:
            server.terminate()
            server.communicate()
    assert ended.stdout == found[2], ended.stderr
