"""Every use case that the documentation names has its command, its view and its report, over the demo's home."""

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
# What the command tells, and what the view has, of the demo.
TOLD = {
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
SEED = 9


@pytest.fixture(scope="module")
def page(demo_home: Path) -> TestClient:
    return TestClient(build_read_app(DataDir.find(demo_home)))


def asked_by(view: str, page: TestClient) -> str:
    """What the page asks the server for, to show a view."""
    name = view.removeprefix("#/").partition("?")[0]
    if name in ("run", "time"):
        return "/api/v2/notebook-runs/latest"
    if name not in ("dataset", "job", "lineage"):
        return f"/api/v2/pages/{name}"
    kind = "job" if name == "job" else "dataset"
    wanted = "orders" if kind == "job" else "/daily_revenue.parquet"
    listed = page.get(f"/api/v2/pages/{kind}s").json()["items"]
    found = next(one[kind] for one in listed if one[kind]["name"].endswith(wanted))
    if name == "lineage":
        node = f"dataset/{found['namespace']}/{found['name'].replace('/', '%2F')}"
        return f"/api/v2/pages/graph?node={node.replace('%', '%25')}&depth=1"
    return f"/api/v2/pages/{name}?namespace={found['namespace']}&name={found['name']}"


def test_all_of_them_are_there() -> None:
    assert len(CASES) == SEED
    assert set(CASES) == set(TOLD)
    assert {report for *_, report, _ in CASES.values()} == set(REPORTS)


@pytest.mark.parametrize("case", TOLD)
def test_a_use_case_has_its_command_its_view_and_its_report(case: str, demo_home: Path, page: TestClient) -> None:
    command, view, report, anchor = CASES[case]
    in_text, in_view = TOLD[case]
    ended = CliRunner().invoke(cli, [*shlex.split(command)[1:], "--home", str(demo_home)], catch_exceptions=False)
    assert ended.exit_code == 0
    assert in_text in ended.stdout
    answer = page.get(asked_by(view, page))
    assert (answer.status_code, in_view in answer.text) == (200, True), answer.text[:300]
    # The tests of the documentation run what the section shows.
    assert f"\n## {anchor}\n" in PAGE
    assert f"$ clew report lake {report} --home shop" in PAGE
