"""Tests that every documented use case has its command, view and report, on the demo's data."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient
from tests.support.paths import ROOT

from clew.cli.main import cli
from clew.cli.serving import build_read_app
from clew.data_dir import DataDir
from clew.reports.run import REPORTS

PAGE = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([^|`]+) \| `(clew [^`]+)` \| `(#/[^`]+)` \| \[`(\w+)`\]\(#(\w+)\) \|$", re.MULTILINE)
CASES = {row[0]: row[1:] for row in ROW.findall(PAGE)}
# Expected text in the output of the command and in the document of the view.
EXPECTED_TEXTS = {
    "performance monitoring": ("orders.py", '"durationMs"'),
    "debugging slow or failing cells": ("check_margin, KeyError", "KeyError"),
    "audit trail": ("cell started", '"type":"FAIL"'),
    "resource use": ("peak", '"startMemoryMb"'),
    "governance: the full lineage of a dataset": ("returns.csv", "returns.csv"),
    "schema discovery": ("daily_revenue.parquet", "daily_revenue.parquet"),
    "impact analysis": ("daily_revenue.parquet", "daily_revenue.parquet"),
    "data-quality monitoring": ("net_revenue", "net_revenue"),
    "pipeline documentation": ("# orders.py", '"orders'),
}
USE_CASE_COUNT = 9


@pytest.fixture(scope="module")
def client(demo_home: Path) -> TestClient:
    return TestClient(build_read_app(DataDir.find(demo_home)))


def request_url(view: str, client: TestClient) -> str:
    """Return the URL that the web UI requests for a view."""
    name = view.removeprefix("#/").partition("?")[0]
    if name in ("run", "time"):
        return "/api/v2/notebook-runs/latest"
    if name not in ("dataset", "job", "lineage"):
        return f"/api/v2/pages/{name}"
    kind = "job" if name == "job" else "dataset"
    name_suffix = "orders" if kind == "job" else "/daily_revenue.parquet"
    items = client.get(f"/api/v2/pages/{kind}s").json()["items"]
    entity = next(item[kind] for item in items if item[kind]["name"].endswith(name_suffix))
    if name == "lineage":
        node = f"dataset/{entity['namespace']}/{entity['name'].replace('/', '%2F')}"
        return f"/api/v2/pages/graph?node={node.replace('%', '%25')}&depth=1"
    return f"/api/v2/pages/{name}?namespace={entity['namespace']}&name={entity['name']}"


def test_all_use_cases_are_documented() -> None:
    assert len(CASES) == USE_CASE_COUNT
    assert set(CASES) == set(EXPECTED_TEXTS)
    assert {report for *_, report, _ in CASES.values()} == set(REPORTS)


@pytest.mark.parametrize("case", EXPECTED_TEXTS)
def test_use_case_has_its_command_view_and_report(case: str, demo_home: Path, client: TestClient) -> None:
    command, view, report, anchor = CASES[case]
    in_text, in_view = EXPECTED_TEXTS[case]
    result = CliRunner().invoke(cli, [*shlex.split(command)[1:], "--home", str(demo_home)], catch_exceptions=False)
    assert result.exit_code == 0
    assert in_text in result.stdout
    response = client.get(request_url(view, client))
    assert (response.status_code, in_view in response.text) == (200, True), response.text[:300]
    # The documentation tests run the examples of the section.
    assert f"\n## {anchor}\n" in PAGE
    assert f"$ clew report lake {report} --home shop" in PAGE
