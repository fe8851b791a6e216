"""Tests of the web UI's API: documents of each view, and errors for invalid requests."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from msgspec import Struct
from starlette.testclient import TestClient
from tests.support.paths import PAGE_TESTS

from clew.api.app import create_app
from clew.api.ui_api import UiDependencies, ui_routes
from clew.data_dir import IndexLocation
from clew.events.streams import Stream, decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.query.context import QueryResources

SHOP = runpy.run_path(str(PAGE_TESTS / "shop.py"))
MARGIN = f"namespace={quote(SHOP['WAREHOUSE'], safe='')}&name=finance.margin"
NODE = quote(f"dataset/{quote(SHOP['WAREHOUSE'], safe='')}/finance.margin", safe="")


class StubHealth(Struct):
    """Pipeline health for tests."""

    words: str = "fine"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("shop")
    is_file = request.param == "sqlite"
    index_location: IndexLocation = (
        folder / "index.sqlite" if is_file else request.getfixturevalue("postgres_schemas").empty("pages")
    )
    extractor = ChangeExtractor()
    for seq, event in enumerate(SHOP["events"]()):
        extractor.add(decode_event(Stream.OPENLINEAGE, json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexWriter(index_location) as writer:
        writer.apply("shop/0", extractor.changes())
    with QueryResources(index_location) as resources:
        dependencies = UiDependencies(resources, folder / "lake", StubHealth)
        app = create_app(ui_routes(dependencies))
        yield TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("activity", '"counts":{"datasets":'),
        ("datasets?text=margin", '"total":1'),
        ("jobs?limit=2", '"bi.refresh"'),
        ("runs?state=FAILED", '"total":2'),
        (f"dataset?{MARGIN}", '"margin_pct"'),
        ("job?namespace=airflow&name=bi.refresh", '"runTotal":14'),
        ("search?text=margin_pct", '"kind":"column"'),
        (f"graph?node={NODE}", '"hiddenDownstream":4'),
        (f"graph?node={NODE}&asOf=2020-01-01T00:00:00", '"links":[]'),
        ("events", '"items":[],"total":0'),
        ("health", '"fine"'),
    ],
)
def test_each_view_has_a_document(client: TestClient, path: str, text: str) -> None:
    response = client.get(f"/api/v2/pages/{path}")
    assert response.status_code == 200
    assert text in response.text


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("datasets?limit=0", 400, "Invalid value '0' for limit. Use a number from 1 to 500."),
        ("jobs?limit=-1", 400, "Invalid value '-1' for limit. Use a number from 1 to 500."),
        ("dataset?name=x", 400, "Missing parameter 'namespace'."),
        (f"dataset?{MARGIN}x", 404, "Did you mean finance.margin?"),
        ("job?namespace=airflow&name=nobody", 404, "There is no job 'nobody'."),
        ("run/nothing", 404, "There is no run 'nothing'."),
        ("diff?before=a&after=b", 404, "'a'"),
        ("graph?node=rubbish", 404, "Invalid node id"),
        (
            f"graph?node={NODE}&depth=1000000000",
            400,
            "Invalid value '1000000000' for depth. Use a number from 1 to 20.",
        ),
        (f"graph?node={NODE}&open=sideways:x", 400, "Invalid value 'sideways:x' for open. Use up:NODE or"),
        (f"graph?node={NODE}&asOf=yesterday", 400, "Invalid value 'yesterday' for asOf. Use a time such"),
        (f"graph?node={NODE}&to=dataset%2Fa%2Fb", 404, "No path"),
        ("events?before=x", 400, "Invalid value 'x' for before. Use a number from 0 to"),
        ("events?bevore=1", 400, "Unknown parameter 'bevore'. Did you mean before?"),
        ("events?stream=none", 404, "Unknown stream 'none'."),
        ("events/lineage/5", 404, "Event 5 does not exist"),
        ("changes/nothing", 404, "nothing"),
    ],
)
def test_rejects_an_invalid_request(client: TestClient, path: str, status: int, text: str) -> None:
    response = client.get(f"/api/v2/pages/{path}")
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert text in f"{response.json()['title']} {response.json()['detail']}"
