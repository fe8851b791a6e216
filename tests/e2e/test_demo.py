"""Tests of `clew demo`: a captured notebook, ingested by Spark and queried."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.lake.lake import Lake

pytestmark = pytest.mark.spark


def test_prints_the_upstream_tree(demo_home: Path) -> None:
    output = (demo_home / "demo.stdout").read_text()
    assert output.splitlines()[0].startswith("daily_revenue.parquet.net_revenue")
    for source in ("orders.csv.price", "orders.csv.qty", "returns.csv.refund"):
        assert source in output
    for step in (
        'orders[orders["status"] == "paid"]  filtered by orders.status',
        'net["net_revenue"] = net["gross"] - net["refunded"]',
        "cell 11 daily, line 2:",
    ):
        assert step in output


def test_prints_the_run_summary(demo_home: Path) -> None:
    output = (demo_home / "demo.stdout").read_text()
    assert "orders.py  13 cells · 1 failed" in output
    assert "Slowest cell: " in output
    assert "Failed: cell 12 check_margin, KeyError: 'cost'" in output
    assert "Wrote: daily_revenue.parquet (360 × 5)" in output


def test_run_page_is_self_contained(demo_home: Path) -> None:
    page = (demo_home / "demo" / "orders.html").read_text()
    assert "net_revenue" in page
    assert 'src="http' not in page
    assert 'href="http' not in page


def test_every_captured_event_is_in_a_table(demo_home: Path) -> None:
    lines = sum(len(path.read_bytes().splitlines()) for path in demo_home.glob("streams/*/*.jsonl"))
    counts = Lake(demo_home / "lake").row_counts()
    assert lines == sum(counts[table] for table in ("lineage_events", "runtime_events", "dataframe_events"))
    assert counts["rejected_events"] == 0
    assert counts["runtime_events"] == 2 * counts["cell_executions"]


def test_second_demo_does_not_change_tables(demo_home: Path, clew: Callable[..., Any]) -> None:
    before = read_tables(demo_home)
    result = clew("demo", "--json", "--home", demo_home)
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["events"], summary["reused"], summary["upstream"]["column"]) == (0, True, "net_revenue")
    assert summary["session"] in (demo_home / "demo.stdout").read_text()
    assert read_tables(demo_home) == before
    assert all(before.values()) or not before["rejected_events"]


def test_no_duplicates_after_losing_checkpoint_and_index(
    demo_home: Path, clew: Callable[..., Any], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    copy_home(demo_home, home, without={"checkpoint", "index.sqlite", "index.sqlite-wal", "index.sqlite-shm"})
    (home / "log" / "intake.json").unlink()
    result = clew("pipeline", "run", "--home", home, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["events"] == 0
    assert read_tables(home) == read_tables(demo_home)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("show",), "13 cells · 1 failed"),
        (("upstream", "daily_revenue.parquet.gross"), "orders.csv.qty"),
        (("upstream", "net.refunded", "--all"), "returns.csv.refund"),
    ],
)
def test_queries_need_no_spark(
    arguments: tuple[str, ...], expected: str, demo_home: Path, clew: Callable[..., Any]
) -> None:
    result = clew(*arguments, "--home", demo_home, PYSPARK_PYTHON="/nonexistent", JAVA_HOME="/nonexistent")
    assert result.returncode == 0, result.stderr
    assert expected in result.stdout


def read_tables(home: Path) -> dict[str, list[str]]:
    lake = Lake(home / "lake")
    return {
        name: sorted(json.dumps(row, default=str, sort_keys=True) for row in table.to_pyarrow_table().to_pylist())
        for name in lake.row_counts()
        if (table := lake.table(name)) is not None
    }


def copy_home(source: Path, target: Path, *, without: set[str]) -> None:
    from shutil import copytree

    copytree(source, target, ignore=lambda _, names: without & set(names))
