"""The table of docs/marquez-compatibility.md agrees with the routes of the API, with the tests and with the page."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.marquez_server import run_marquez_server
from tests.support.paths import ROOT

from clew.api.marquez.app import MarquezApi
from clew.api.marquez.write_handlers import create_log_store
from clew.data_dir import DataDir
from clew.query.context import QueryResources

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "generate_marquez_compatibility.py"))
TABLE: dict[str, Any] = SCRIPT["load_table"]()
DIFFERENCES: dict[str, dict[str, str]] = TABLE["differences"]


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "marquez-compatibility.md").read_text() == SCRIPT["render"](TABLE)


def test_the_requests_are_the_routes(tmp_path: Path) -> None:
    home = DataDir(tmp_path / "home").create()
    with QueryResources(home.index) as resources:
        api = MarquezApi(resources, home.log, create_log_store(home.log), is_collecting=True)
    routes = {f"{route.method} /{'/'.join(route.pattern)}" for group in api._routes.values() for route in group}
    assert {to_route(request) for request in TABLE["requests"]} == routes
    assert len(TABLE["requests"]) == len(routes)


def to_route(request: str) -> str:
    """Return a request as the pattern of a route."""
    method, path = re.sub(r"\{\w+\}", "*", request).split()
    return f"{method} {path}" if path.startswith("/v2beta/") else f"{method} /v1{path}"


@pytest.mark.parametrize("request_", TABLE["missing"])
def test_a_missing_request_is_an_error(tmp_path: Path, request_: str) -> None:
    method, path = request_.split()
    with run_marquez_server(tmp_path / "home", is_eager=True) as server:
        path = path if path.startswith("/api/") else f"/api{path}"
        assert server.client.request(method, path).status_code in {404, 405}


def test_a_new_server_has_no_namespace(tmp_path: Path) -> None:
    with run_marquez_server(tmp_path / "home", is_eager=True) as server:
        namespaces = [namespace["name"] for namespace in server.get("/namespaces")["namespaces"]]
        sources = [source["name"] for source in server.get("/sources")["sources"]]
    assert namespaces == ["team"]
    assert "default" in sources


def test_every_difference_belongs_to_a_request() -> None:
    used = {key for keys in TABLE["requests"].values() for key in keys}
    assert used == set(DIFFERENCES)
    assert {key for *_, keys in SCRIPT["list_tests"](TABLE) for key in keys} <= set(DIFFERENCES)
    for row in DIFFERENCES.values():
        assert row.keys() == {"value", "marquez", "clew", "reason", "test"}
        assert row["marquez"] != row["clew"]
        assert row["reason"].endswith(".")


def named_tests() -> Iterator[str]:
    """Yield the tests that the table names."""
    yield from (row["test"] for row in DIFFERENCES.values())
    for tests in TABLE["integration_tests"].values():
        for row in tests.values():
            if row != "internal":
                yield row if isinstance(row, str) else row["test"]


def test_the_named_tests_exist() -> None:
    for name in set(named_tests()):
        file, _, function = name.partition("::")
        body = ast.parse((ROOT / "tests" / file).read_text()).body
        assert function in {item.name for item in body if isinstance(item, ast.FunctionDef)}, name


def test_every_test_of_marquez_requests_is_one_of_marquez() -> None:
    """Our tests of its requests are all named, so that none of them is lost."""
    named = set(named_tests())
    for file in ("laws/test_marquez_requests.py", "laws/test_marquez_events.py"):
        body = ast.parse((ROOT / "tests" / file).read_text()).body
        tests = {f"{file}::{item.name}" for item in body if isinstance(item, ast.FunctionDef)}
        assert {test for test in tests if "::test_" in test} <= named
