"""Tests of the application: run pages, lists, problem documents, caching headers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import SchemaMismatchError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from clew.api.app import create_app
from clew.api.static_files import STATIC
from clew.api.v2.routes import operation_routes
from clew.index.backends.sqlite import MissingIndexError
from clew.index.writer import IndexWriter
from clew.query.context import QueryResources
from clew.query.model import NotebookRun
from clew.query.pages.run_page_model import RunPage

MakeRoutes = Callable[[list[NotebookRun]], list[Route]]


@pytest.fixture
def client(make_routes: MakeRoutes, sample: dict[str, Any], web_build: Path) -> TestClient:
    assert web_build != STATIC
    return TestClient(create_app(make_routes([sample["orders_run"]()])))


@pytest.mark.parametrize("path", ["latest", "6ac33987", "latest?column=daily_revenue.parquet.net_revenue"])
def test_returns_the_page_of_a_run(client: TestClient, path: str) -> None:
    response = client.get(f"/api/v2/notebook-runs/{path}")
    page = msgspec.json.decode(response.content, type=RunPage)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert (page.header.session_id, page.header.notebook) == ("6ac33987", "orders.py")
    assert (page.explanation is not None) == ("column" in path)


def test_lists_runs_newest_first_with_a_total(make_routes: MakeRoutes, sample: dict[str, Any]) -> None:
    run = sample["orders_run"]()
    client = TestClient(create_app(make_routes([run] * 120)))
    default, limited = (client.get(f"/api/v2/notebook-runs{query}").json() for query in ("", "?limit=7"))
    assert (len(default["runs"]), default["total"]) == (100, 120)
    assert (len(limited["runs"]), limited["total"]) == (7, 120)
    assert default["runs"][0] == {
        "sessionId": "6ac33987",
        "notebook": "orders.py",
        "state": "FAILED",
        "startedAt": "2026-11-15T14:02:11Z",
        "endedAt": "2026-11-15T14:02:12.939100Z",
        "cellCount": 12,
        "failedCellCount": 1,
    }


@pytest.mark.parametrize(
    ("method", "path", "status", "title"),
    [
        ("GET", "/api/v2/notebook-runs/deadbeef", 404, "There is no notebook session 'deadbeef'."),
        ("GET", "/api/v2/notebook-runs/%F0%9F%A7%B5", 404, "There is no notebook session '🧵'."),
        ("GET", "/api/v2/notebook-runs?limit=0", 400, "Invalid value '0' for limit."),
        ("GET", "/api/v2/notebook-runs?limit=x", 400, "Invalid value 'x' for limit."),
        ("GET", "/api/v2/nothing", 404, "Not Found"),
        ("POST", "/api/v2/notebook-runs", 405, "Method Not Allowed"),
        ("GET", "/assets/index-0.js", 404, "File not found."),
        ("GET", "/assets/..%2Findex.html", 404, "Not Found"),
    ],
)
def test_an_error_is_a_problem_document(client: TestClient, method: str, path: str, status: int, title: str) -> None:
    response = client.request(method, path)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert (response.json()["status"], response.json()["title"]) == (status, title)


def test_a_missing_index_is_503_with_a_hint(tmp_path: Path) -> None:
    with QueryResources(tmp_path / "index.sqlite") as resources:
        response = TestClient(create_app(operation_routes(resources))).get("/api/v2/notebook-runs/latest")
    expected = MissingIndexError.at(tmp_path / "index.sqlite")
    assert response.status_code == 503
    assert (response.json()["title"], response.json()["detail"]) == (expected.message, expected.hint)


def test_an_empty_index_is_404_with_a_hint(tmp_path: Path) -> None:
    index = tmp_path / "index.sqlite"
    with IndexWriter(index), QueryResources(index) as resources:
        response = TestClient(create_app(operation_routes(resources))).get("/api/v2/notebook-runs/latest")
    assert (response.status_code, response.json()["title"]) == (404, "No notebook run was recorded yet.")
    assert "clew demo" in response.json()["detail"]


def test_an_unexpected_error_is_500_without_details() -> None:
    def fail(_: Request) -> Response:
        raise ZeroDivisionError("secret")

    app = create_app([Route("/api/v2/failing", fail)])
    response = TestClient(app, raise_server_exceptions=False).get("/api/v2/failing")
    assert (response.status_code, response.json()["title"]) == (500, "Internal server error.")
    assert "secret" not in response.text


def test_a_damaged_file_of_the_lake_is_503(tmp_path: Path) -> None:
    (tmp_path / "part-1.parquet").write_bytes(bytes(1000))

    def fail(_: Request) -> Response:
        return Response(pq.read_table(tmp_path / "part-1.parquet"))

    app = create_app([Route("/api/v2/failing", fail)])
    response = TestClient(app, raise_server_exceptions=False).get("/api/v2/failing")
    assert (response.status_code, response.json()["title"]) == (503, "The lake cannot be read.")
    assert "clew doctor --repair" in response.json()["detail"]


@pytest.mark.parametrize("damage", ["zeroed", "missing", "folder"])
def test_a_query_of_a_damaged_file_is_503(damage: str, tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1, 2]}))
    (path,) = tmp_path.glob("*.parquet")
    size = path.stat().st_size
    path.unlink()
    if damage == "zeroed":
        path.write_bytes(bytes(size))
    elif damage == "folder":
        path.mkdir()

    def fail(_: Request) -> Response:
        QueryBuilder().register("t", DeltaTable(tmp_path)).execute("select * from t").read_all()
        return Response()

    app = create_app([Route("/api/v2/failing", fail)])
    response = TestClient(app, raise_server_exceptions=False).get("/api/v2/failing")
    assert (response.status_code, response.json()["title"]) == (503, "The lake cannot be read.")


@pytest.mark.parametrize(
    "error",
    [
        Exception("a defect"),
        pa.ArrowInvalid("Casting from timestamp[us] would lose data"),
        pa.ArrowNotImplementedError("no kernel"),
        pa.ArrowKeyError("no column"),
        SchemaMismatchError("schema"),
    ],
    ids=repr,
)
def test_other_errors_of_pyarrow_and_deltalake_are_500(error: Exception) -> None:
    def fail(_: Request) -> Response:
        raise error

    app = create_app([Route("/api/v2/failing", fail)])
    response = TestClient(app, raise_server_exceptions=False).get("/api/v2/failing")
    assert (response.status_code, response.json()["title"]) == (500, "Internal server error.")


@pytest.mark.parametrize(
    ("path", "cache", "content_type"),
    [
        ("/", "no-cache", "text/html; charset=utf-8"),
        ("/assets/index-1a.js", "public, max-age=31536000, immutable", "text/javascript; charset=utf-8"),
        ("/assets/style-2b.css", "public, max-age=31536000, immutable", "text/css; charset=utf-8"),
        ("/api/v2/notebook-runs/latest", "no-cache", "application/json"),
    ],
)
def test_cache_headers(client: TestClient, path: str, cache: str, content_type: str) -> None:
    response = client.get(path)
    assert (response.status_code, response.headers["cache-control"], response.headers["content-type"]) == (
        200,
        cache,
        content_type,
    )


def test_content_security_policy_allows_only_own_sources(client: TestClient) -> None:
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy


def test_a_missing_web_build_is_503_with_a_hint(client: TestClient, web_build: Path) -> None:
    (web_build / "index.html").unlink()
    response = client.get("/")
    assert response.status_code == 503
    assert "make web" in response.json()["detail"]


def test_healthz(client: TestClient) -> None:
    assert client.get("/healthz").text == "ok\n"
