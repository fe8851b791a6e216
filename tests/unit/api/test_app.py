"""The API: pages, lists and problems, each with the status and headers a client relies on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from clew.api.app import create_app
from clew.api.static_files import STATIC
from clew.index.backends.sqlite import MissingIndexError
from clew.query.model import NotebookRun
from clew.query.pages.run_page_model import RunPage
from clew.query.service import NotebookService

SourceOf = Callable[[list[NotebookRun]], Any]


@pytest.fixture
def client(source_of: SourceOf, sample: dict[str, Any], built: Path) -> TestClient:
    assert built != STATIC
    return TestClient(create_app(source_of([sample["orders_run"]()])))


@pytest.mark.parametrize("path", ["latest", "6ac33987", "latest?column=daily_revenue.parquet.net_revenue"])
def test_a_run_is_a_page(client: TestClient, path: str) -> None:
    answer = client.get(f"/api/v2/notebook-runs/{path}")
    page = msgspec.json.decode(answer.content, type=RunPage)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert (page.header.session_id, page.header.notebook) == ("6ac33987", "orders.py")
    assert (page.explanation is not None) == ("column" in path)


def test_runs_are_listed_newest_first_and_counted(source_of: SourceOf, sample: dict[str, Any]) -> None:
    run = sample["orders_run"]()
    client = TestClient(create_app(source_of([run] * 120)))
    whole, part = (client.get(f"/api/v2/notebook-runs{query}").json() for query in ("", "?limit=7"))
    assert (len(whole["runs"]), whole["total"]) == (100, 120)
    assert (len(part["runs"]), part["total"]) == (7, 120)
    assert whole["runs"][0] == {
        "sessionId": "6ac33987",
        "notebook": "orders.py",
        "state": "FAILED",
        "startedAt": "2026-11-15T14:02:11Z",
        "endedAt": "2026-11-15T14:02:12.939100Z",
        "cellCount": 12,
        "failedCellCount": 1,
    }


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
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
def test_a_problem_says_what_was_wrong(client: TestClient, method: str, path: str, status: int, words: str) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (answer.json()["status"], answer.json()["title"]) == (status, words)


def test_a_missing_index_is_503_with_what_to_do(tmp_path: Path) -> None:
    answer = TestClient(create_app(lambda: NotebookService(tmp_path / "index.sqlite"))).get(
        "/api/v2/notebook-runs/latest"
    )
    expected = MissingIndexError.at(tmp_path / "index.sqlite")
    assert answer.status_code == 503
    assert (answer.json()["title"], answer.json()["detail"]) == (expected.message, expected.hint)


def test_an_empty_index_is_404_with_what_to_do(source_of: SourceOf) -> None:
    answer = TestClient(create_app(source_of([]))).get("/api/v2/notebook-runs/latest")
    assert (answer.status_code, answer.json()["title"]) == (404, "No notebook run was recorded yet.")
    assert "clew demo" in answer.json()["detail"]


def test_a_fault_of_ours_is_500_without_a_trace() -> None:
    def broken() -> Any:
        raise ZeroDivisionError("secret")

    answer = TestClient(create_app(broken), raise_server_exceptions=False).get("/api/v2/notebook-runs/latest")
    assert (answer.status_code, answer.json()["title"]) == (500, "Internal server error.")
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("path", "cache", "kind"),
    [
        ("/", "no-cache", "text/html; charset=utf-8"),
        ("/assets/index-1a.js", "public, max-age=31536000, immutable", "text/javascript; charset=utf-8"),
        ("/assets/style-2b.css", "public, max-age=31536000, immutable", "text/css; charset=utf-8"),
        ("/api/v2/notebook-runs/latest", "no-cache", "application/json"),
    ],
)
def test_what_never_changes_is_kept_forever(client: TestClient, path: str, cache: str, kind: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["cache-control"], answer.headers["content-type"]) == (200, cache, kind)


def test_the_page_may_load_nothing_from_elsewhere(client: TestClient) -> None:
    assert "default-src 'self'" in client.get("/").headers["content-security-policy"]


def test_a_page_that_was_not_built_says_how(client: TestClient, built: Path) -> None:
    (built / "index.html").unlink()
    answer = client.get("/")
    assert answer.status_code == 503
    assert "make web" in answer.json()["detail"]


def test_it_says_that_it_lives(client: TestClient) -> None:
    assert client.get("/healthz").text == "ok\n"
