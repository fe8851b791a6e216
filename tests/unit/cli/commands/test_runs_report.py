"""Tests of `clew report`: reports from the index as text, JSON, Markdown and HTML."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli
from clew.errors import ClewError, UsageError
from clew.events.openlineage import decode_openlineage
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.reports.html import render_bar_chart

START = datetime(2026, 1, 1, tzinfo=UTC)


def invoke(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["report", *arguments, "--home", str(home)], catch_exceptions=False)


@pytest.fixture
def home(orders: Any) -> Path:
    folder: Path = orders.index.parent
    return folder


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_performance_shows_sessions_with_slowest_cells(home: Path) -> None:
    output = lines(invoke(home, "performance"))
    assert output[1] == "aaaa1111 orders.py 5 cells failed 130 ms peak 120 MB".split()
    assert output[2] == "1 load completed 90 ms +20 MB".split()
    assert len(output) == 7


def test_performance_of_session_as_json(home: Path) -> None:
    (session,) = json.loads(invoke(home, "performance", "aaaa1111", "--json").stdout)
    assert (session["cell_count"], session["cells_ms"]) == (5, 130.0)
    assert (session["peak_memory_mb"], session["memory_increase_mb"]) == (120.0, 20.0)
    assert [cell["duration_ms"] for cell in session["slowest"]] == [90.0, 10.0, 10.0, 10.0, 10.0]


def test_audit_lists_events_in_time_order(home: Path) -> None:
    entries = json.loads(invoke(home, "audit", "--json").stdout)
    assert [entry["kind"] for entry in entries] == ["cell started", "operation", "cell ended"] * 5
    save = [entry for entry in entries if entry["cell"] == "save"]
    assert (save[1]["detail"], save[1]["read"], save[1]["wrote"]) == (
        "totals.to_parquet(path)",
        ["marimo:orders/totals"],
        ["file:/data/totals.parquet"],
    )
    assert entries[-1]["detail"] == "failed: KeyError: 'prise'"
    assert "totals.to_parquet(path)" in invoke(home, "audit", "aaaa1111").stdout


def test_documentation_as_markdown(home: Path) -> None:
    page = invoke(home, "documentation").stdout
    assert page.startswith("# orders.py\n\nFrom session aaaa1111 of 2026-01-01 10:02 UTC: 5 cells, failed.\n")
    for part in (
        "### totals.parquet\n\nfile:/data/totals.parquet: 1 column, 7 rows.\n",
        "| sum | int64 | orders.csv.price |",
        "### total\n\nCompleted; reads df; produces totals.\n\n```python\ntotal()\n```\n",
    ):
        assert part in page


@pytest.mark.parametrize("name", ["orders", "orders.py", "aaaa1111"])
def test_documentation_is_written_to_file(name: str, home: Path, tmp_path: Path) -> None:
    for suffix, prefix in ((".md", "# orders.py\n"), (".html", "<!doctype html>\n")):
        out = tmp_path / f"page{suffix}"
        assert invoke(home, "documentation", name, "--out", str(out)).exit_code == 0
        assert out.read_text().startswith(prefix)
        assert "orders.csv.price" in out.read_text()


def quality_events() -> list[dict[str, Any]]:
    def event(number: int, fields: dict[str, str], nulls: int, max_price: float) -> dict[str, Any]:
        metrics = {"rowCount": 100, "columnMetrics": {"price": {"nullCount": nulls, "min": 1.0, "max": max_price}}}
        dataset = {
            "namespace": "file",
            "name": "/data/orders.csv",
            "facets": {
                "schema": {"fields": [{"name": name, "type": column_type} for name, column_type in fields.items()]}
            },
            "inputFacets": {"dataQualityMetrics": metrics},
        }
        return {
            "eventType": "COMPLETE",
            "eventTime": (START + timedelta(days=number)).isoformat(),
            "run": {"runId": f"run-{number}"},
            "job": {"namespace": "n", "name": "load"},
            "inputs": [dataset],
        }

    return [
        event(0, {"id": "int", "price": "int"}, 0, 9.0),
        event(1, {"id": "int", "price": "double"}, 5, 9.0),
        event(2, {"price": "double", "tax": "double"}, 20, 12.5),
    ]


@pytest.fixture
def drifting(tmp_path: Path) -> Path:
    extractor = ChangeExtractor()
    for seq, event in enumerate(quality_events()):
        extractor.add(decode_openlineage(json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexWriter(tmp_path / "index.sqlite") as index:
        index.apply("batch/0", extractor.changes())
    return tmp_path


def test_quality_shows_changes(drifting: Path) -> None:
    assert [" ".join(line) for line in lines(invoke(drifting, "quality", "orders.csv"))] == [
        "file:/data/orders.csv 3 reads and writes, 100 to 100 rows",
        "column type nulls distinct min max",
        "price double 0.0% → 20.0% 1.0 9.0 → 12.5",
        "tax double",
        "id int (removed)",
        "2026-01-02 00:00:00 retyped price: int → double (run run-1)",
        "2026-01-03 00:00:00 added tax; removed id (run run-2)",
    ]


def test_quality_json_contains_every_run(drifting: Path) -> None:
    drift = json.loads(invoke(drifting, "quality", "orders.csv", "--json").stdout)
    assert [run["run_uuid"] for run in drift["runs"]] == ["run-2", "run-1", "run-0"]
    assert [run["metrics"]["price"]["nullCount"] for run in drift["runs"]] == [20, 5, 0]


@pytest.mark.parametrize(
    ("arguments", "error_type", "message"),
    [
        (("documentation", "ordres"), UsageError, r"Did you mean orders\.py\?"),
        (("documentation", "--out", "page.pdf"), UsageError, "neither .md nor .html"),
        (("documentation", "--out", "nowhere/page.md"), ClewError, r"Cannot write nowhere/page\.md"),
        (("quality", "orders.cvs"), UsageError, r"Did you mean orders\.csv"),
        (("performance", "aaaa1112"), UsageError, "Did you mean aaaa1111?"),
        (("lake", "governence"), UsageError, "Did you mean governance?"),
        (("lake",), ClewError, "There is no lake at"),
    ],
)
def test_user_error_is_reported_with_hint(
    arguments: tuple[str, ...], error_type: type[ClewError], message: str, home: Path
) -> None:
    with pytest.raises(error_type, match=message):
        invoke(home, *arguments)


def test_bar_chart_scales_bars_and_escapes_labels() -> None:
    svg = render_bar_chart([("a<b", 10.0), ("x" * 60, 5.0), ("none", 0.0)], "ms")
    assert svg.startswith("<svg ")
    assert 'width="450.0"' in svg
    assert 'width="225.0"' in svg
    assert "a&lt;b" in svg
    assert f"…{'x' * 45}" in svg
