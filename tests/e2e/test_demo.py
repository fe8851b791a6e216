"""The main job, for real: a notebook under capture, through Spark, to the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.lake.lake import Lake

pytestmark = pytest.mark.spark


def test_the_demo_answers_where_the_column_came_from(demo_home: Path) -> None:
    told = (demo_home / "demo.stdout").read_text()
    assert told.splitlines()[0].startswith("daily_revenue.parquet.net_revenue")
    for source in ("orders.csv.price", "orders.csv.qty", "returns.csv.refund"):
        assert source in told
    for hop in (
        'orders[orders["status"] == "paid"]  filtered by orders.status',
        'net["net_revenue"] = net["gross"] - net["refunded"]',
        "cell 11 daily, line 2:",
    ):
        assert hop in told


def test_the_demo_sums_the_run_up(demo_home: Path) -> None:
    told = (demo_home / "demo.stdout").read_text()
    assert "orders.py  13 cells · 1 failed" in told
    assert "Slowest cell: " in told
    assert "Failed: cell 12 check_margin, KeyError: 'cost'" in told
    assert "Wrote: daily_revenue.parquet (360 × 5)" in told


def test_the_page_is_one_file_that_holds_the_answer(demo_home: Path) -> None:
    page = (demo_home / "demo" / "orders.html").read_text()
    assert "net_revenue" in page
    assert 'src="http' not in page
    assert 'href="http' not in page


def test_every_line_of_the_streams_is_in_a_table(demo_home: Path) -> None:
    lines = sum(len(path.read_bytes().splitlines()) for path in demo_home.glob("streams/*/*.jsonl"))
    counts = Lake(demo_home / "lake").row_counts()
    assert lines == sum(counts[table] for table in ("lineage_events", "runtime_events", "dataframe_events"))
    assert counts["rejected_events"] == 0
    assert counts["runtime_events"] == 2 * counts["cell_executions"]


def test_the_demo_twice_leaves_the_same_tables(demo_home: Path, clew: Callable[..., Any]) -> None:
    before = tables(demo_home)
    again = clew("demo", "--json", "--home", demo_home)
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert (told["events"], told["reused"], told["upstream"]["column"]) == (0, True, "net_revenue")
    assert told["session"] in (demo_home / "demo.stdout").read_text()
    assert tables(demo_home) == before
    assert all(before.values()) or not before["rejected_events"]


def test_a_lost_log_position_and_a_lost_index_double_nothing(
    demo_home: Path, clew: Callable[..., Any], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    copy(demo_home, home, without={"checkpoint", "index.sqlite", "index.sqlite-wal", "index.sqlite-shm"})
    (home / "log" / "intake.json").unlink()
    ended = clew("pipeline", "run", "--home", home, "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["events"] == 0
    assert tables(home) == tables(demo_home)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("show",), "13 cells · 1 failed"),
        (("upstream", "daily_revenue.parquet.gross"), "orders.csv.qty"),
        (("upstream", "net.refunded", "--all"), "returns.csv.refund"),
    ],
)
def test_questions_are_answered_without_spark(
    arguments: tuple[str, ...], expected: str, demo_home: Path, clew: Callable[..., Any]
) -> None:
    ended = clew(*arguments, "--home", demo_home, PYSPARK_PYTHON="/nonexistent", JAVA_HOME="/nonexistent")
    assert ended.returncode == 0, ended.stderr
    assert expected in ended.stdout


def tables(home: Path) -> dict[str, list[str]]:
    lake = Lake(home / "lake")
    return {
        name: sorted(json.dumps(row, default=str, sort_keys=True) for row in table.to_pyarrow_table().to_pylist())
        for name in lake.row_counts()
        if (table := lake.table(name)) is not None
    }


def copy(source: Path, target: Path, *, without: set[str]) -> None:
    from shutil import copytree

    copytree(source, target, ignore=lambda _, names: without & set(names))
