"""Tests of the login form in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bench.browser import serve_app
from playwright.sync_api import Page, expect

from clew.api.middleware import AuthMiddleware
from clew.cli.serving import build_limited_app, build_read_app
from clew.data_dir import DataDir
from clew.server.auth import Authenticator, KeyFile, Scope
from clew.server.origin_check import OriginMiddleware, OriginPolicy

pytestmark = pytest.mark.browser


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture
def url(keys: KeyFile, fill_shop: Callable[[DataDir], None], tmp_path: Path) -> Iterator[str]:
    home = DataDir(tmp_path / "home")
    fill_shop(home)
    guarded = AuthMiddleware(build_read_app(home), Authenticator(keys), partial(build_limited_app, home))
    app: Any = OriginMiddleware(guarded, OriginPolicy.of("127.0.0.1"))
    with serve_app(app) as address:
        yield address


def test_logs_in_and_out(url: str, keys: KeyFile, open_page: Callable[..., Page]) -> None:
    key = keys.add("someone", [Scope.READ])
    page = open_page(f"{url}#/jobs", check_console=False)
    form = page.get_by_role("heading", name="Log in")
    expect(form).to_be_visible()
    expect(page.get_by_role("button", name="Log out")).to_have_count(0)
    page.get_by_label("API key").fill("wrong")
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("The API key is unknown or was revoked.")
    page.get_by_label("API key").fill(key)
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    expect(page.get_by_text("bi.refresh").first).to_be_visible()
    assert "clew-session" not in page.evaluate("document.cookie")
    page.reload()
    expect(page.get_by_text("bi.refresh").first).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(form).to_be_visible()


def test_a_limited_key_sees_its_namespaces(url: str, keys: KeyFile, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{url}#/datasets", check_console=False)
    page.get_by_label("API key").fill(keys.add("part", [Scope.READ], ["airflow"]))
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    expect(page.get_by_text("finance.margin")).to_have_count(0)
    page.goto(f"{url}#/health")
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
