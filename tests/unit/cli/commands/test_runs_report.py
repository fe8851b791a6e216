"""Tests of `clew report`: reports from the index as text, JSON, Markdown and HTML."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from clew.cli.commands.runs import _metric_changes
from clew.cli.main import cli
from clew.errors import ClewError, UsageError
from clew.events.openlineage import decode_openlineage
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.query.notebooks.reports import Downstream, summarize_resources
from clew.query.quality import ColumnDrift, ColumnMetrics
from clew.query.service import LineageService
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
    assert output[2][:6] == "1 load completed 90 ms +20".split()
    cells = [line for line in output if {"completed", "failed"} & set(line)]
    assert len(cells) == 6


def test_performance_of_session_as_json(home: Path) -> None:
    (session,) = json.loads(invoke(home, "performance", "aaaa1111", "--json").stdout)
    assert (session["cell_count"], session["cells_ms"]) == (5, 130.0)
    assert (session["peak_memory_mb"], session["memory_increase_mb"]) == (120.0, 20.0)
    assert [cell["duration_ms"] for cell in session["slowest"]] == [90.0, 10.0, 10.0, 10.0, 10.0]


def test_performance_combines_cost_with_lineage(home: Path) -> None:
    (session,) = json.loads(invoke(home, "performance", "aaaa1111", "--json").stdout)
    load = session["slowest"][0]
    assert load["operations"] > 0
    assert load["ms_per_operation"] == pytest.approx(load["duration_ms"] / load["operations"], abs=0.001)
    assert load["ms_per_column"] == pytest.approx(load["duration_ms"] / load["columns"], abs=0.001)
    # Everything after the first cell depends on it; nothing depends on the last one.
    dependent = {cell["cell"]: cell["downstream"]["operations"] for cell in session["slowest"]}
    assert dependent["1 load"] == max(dependent.values()) > 0
    assert min(dependent.values()) == 0


def test_slowest_operations_with_their_cost_per_column(orders: Any) -> None:
    with LineageService.open(orders.index) as service:
        run = service.get_session("aaaa1111")
    timed = tuple(
        structs.replace(operation, duration_ms=float(position)) for position, operation in enumerate(run.operations)
    )
    slowest = summarize_resources(structs.replace(run, operations=timed)).slowest_operations
    assert [item.duration_ms for item in slowest] == sorted((item.duration_ms for item in slowest), reverse=True)
    assert slowest[0].code == timed[-1].code
    described = next(item for item in slowest if item.columns)
    assert described.ms_per_column == pytest.approx(described.duration_ms / described.columns, abs=0.001)
    assert slowest[0].downstream == Downstream(0, 0, 0)


@pytest.mark.parametrize("name", ["orders.py", "orders", "aaaa1111"])
@pytest.mark.parametrize("command", [["show"], ["report", "performance"], ["report", "audit"]])
def test_runs_are_found_by_notebook_or_session(command: list[str], name: str, home: Path) -> None:
    def run(*arguments: str) -> str:
        return CliRunner().invoke(cli, [*command, *arguments, "--home", str(home)], catch_exceptions=False).stdout

    assert run(name) == run() != ""


def test_show_lists_what_was_not_captured(orders: Any, home: Path) -> None:
    with LineageService.open(orders.index) as service:
        run_id = service.get_session("aaaa1111").run_uuid
    errors = [{"errorMessage": "cell load, line 2: merge (ValueError)", "task": "a.merge(b)"}]
    facet = {"_producer": "p", "_schemaURL": "s", "totalTasks": 1, "failedTasks": 1, "errors": errors}
    event = {
        "eventTime": "2026-01-03T00:00:00Z",
        "run": {"runId": run_id, "facets": {"extractionError": facet}},
        "job": {"namespace": "marimo", "name": "orders"},
    }
    extractor = ChangeExtractor()
    extractor.add(decode_openlineage(json.dumps(event).encode()), f"{10**6:032x}", 10**6)
    with IndexWriter(orders.index) as index:
        index.apply("batch/loss", extractor.changes())
    shown = CliRunner().invoke(cli, ["show", "aaaa1111", "--home", str(home)], catch_exceptions=False)
    assert "Not captured: cell load, line 2: merge (ValueError): a.merge(b)" in shown.stdout
    as_json = CliRunner().invoke(cli, ["show", "aaaa1111", "--json", "--home", str(home)], catch_exceptions=False)
    assert json.loads(as_json.stdout)["losses"] == [{"message": errors[0]["errorMessage"], "code": "a.merge(b)"}]


def test_estimated_distinct_counts_are_marked() -> None:
    metrics = ColumnMetrics(distinct_count=5, sampled=True)
    column = ColumnDrift("a", "int", is_current=True, first_null_share=0, last_null_share=0, first=None, last=metrics)
    assert _metric_changes(column)["distinct"] == "~5"


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


def test_quality_shows_tests_and_all_metrics(tmp_path: Path) -> None:
    column = {"nullCount": 5, "distinctCount": 3, "sum": 47.5, "min": 1, "max": 9, "quantiles": {"0.5": 2, "0.9": 8.25}}
    tests = [
        {"assertion": "not_null", "column": "price", "success": True},
        {"assertion": "unique", "name": "unique_id", "column": "id", "success": False, "expected": "0", "actual": "2"},
        {"assertion": "custom", "success": "maybe", "severity": "warn"},
    ]
    facets = {
        "dataQualityMetrics": {"rowCount": 100, "bytes": 2048, "columnMetrics": {"price": column}},
        "dataQualityAssertions": {"assertions": tests},
    }
    event = quality_events()[0]
    event["inputs"][0] |= {"inputFacets": facets, "facets": {}}
    extractor = ChangeExtractor()
    extractor.add(decode_openlineage(json.dumps(event).encode()), "0" * 32, 0)
    with IndexWriter(tmp_path / "index.sqlite") as index:
        index.apply("batch/0", extractor.changes())
    assert [" ".join(line) for line in lines(invoke(tmp_path, "quality", "orders.csv"))] == [
        "file:/data/orders.csv 1 read or write, 100 to 100 rows, 2.0 kB",
        "",
        "result test column expected actual severity at run",
        "failed unique_id id 0 2 2026-01-01 00:00:00 run-0",
        "passed not_null price 2026-01-01 00:00:00 run-0",
        "unknown custom warn 2026-01-01 00:00:00 run-0",
        "",
        "column type nulls distinct min max average sum quantiles",
        "price 5.0% 3 1 9 0.5 47.5 0.5: 2 0.9: 8.25",
    ]
    arguments = ["runs", "--home", str(tmp_path)]
    heads, run = CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout.splitlines()
    assert "tests" in heads
    assert "1 of 3 failed" in run


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
