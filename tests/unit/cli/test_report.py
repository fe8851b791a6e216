"""`clew report`: from the index, as text, as JSON and as pages."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli
from clew.errors import ClewError, UsageError
from clew.events.openlineage import decode
from clew.index.observer import Observer
from clew.index.sink import IndexSink
from clew.reports.plots import bars

START = datetime(2026, 1, 1, tzinfo=UTC)


def invoke(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["report", *arguments, "--home", str(home)], catch_exceptions=False)


@pytest.fixture
def home(orders: Any) -> Path:
    folder: Path = orders.index.parent
    return folder


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_performance_shows_sessions_with_their_slowest_cells(home: Path) -> None:
    shown = lines(invoke(home, "performance"))
    assert shown[1] == "aaaa1111 orders.py 5 cells failed 130 ms peak 120 MB".split()
    assert shown[2] == "1 load completed 90 ms +20 MB".split()
    assert len(shown) == 7


def test_performance_of_one_session_as_json(home: Path) -> None:
    (cost,) = json.loads(invoke(home, "performance", "aaaa1111", "--json").stdout)
    assert (cost["cell_count"], cost["cells_ms"], cost["peak_memory_mb"], cost["grown_mb"]) == (5, 130.0, 120.0, 20.0)
    assert [cell["duration_ms"] for cell in cost["slowest"]] == [90.0, 10.0, 10.0, 10.0, 10.0]


def test_an_audit_is_a_trail_in_order(home: Path) -> None:
    entries = json.loads(invoke(home, "audit", "--json").stdout)
    assert [entry["what"] for entry in entries] == ["cell started", "operation", "cell ended"] * 5
    save = [entry for entry in entries if entry["cell"] == "save"]
    assert (save[1]["detail"], save[1]["read"], save[1]["wrote"]) == (
        "totals.to_parquet(path)",
        ["marimo:orders/totals"],
        ["file:/data/totals.parquet"],
    )
    assert entries[-1]["detail"] == "failed: KeyError: 'prise'"
    assert "totals.to_parquet(path)" in invoke(home, "audit", "aaaa1111").stdout


def test_documentation_is_markdown(home: Path) -> None:
    page = invoke(home, "documentation").stdout
    assert page.startswith("# orders.py\n\nAs its run aaaa1111 of 2026-01-01 10:02 UTC shows it: 5 cells, failed.\n")
    for part in (
        "### totals.parquet\n\nfile:/data/totals.parquet: 1 column, 7 rows.\n",
        "| sum | int64 | orders.csv.price |",
        "### total\n\nCompleted; takes df; makes totals.\n\n```python\ntotal()\n```\n",
    ):
        assert part in page


@pytest.mark.parametrize("name", ["orders", "orders.py", "aaaa1111"])
def test_documentation_by_whichever_name_into_a_file(name: str, home: Path, tmp_path: Path) -> None:
    for ending, beginning in ((".md", "# orders.py\n"), (".html", "<!doctype html>\n")):
        out = tmp_path / f"page{ending}"
        assert invoke(home, "documentation", name, "--out", str(out)).exit_code == 0
        assert out.read_text().startswith(beginning)
        assert "orders.csv.price" in out.read_text()


def quality_events() -> list[dict[str, Any]]:
    def event(number: int, fields: dict[str, str], nulls: int, most: float) -> dict[str, Any]:
        metrics = {"rowCount": 100, "columnMetrics": {"price": {"nullCount": nulls, "min": 1.0, "max": most}}}
        dataset = {
            "namespace": "file",
            "name": "/data/orders.csv",
            "facets": {"schema": {"fields": [{"name": name, "type": kind} for name, kind in fields.items()]}},
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
    observer = Observer()
    for seq, one in enumerate(quality_events()):
        observer.note(decode(json.dumps(one).encode()), f"{seq:032x}", seq)
    with IndexSink(tmp_path / "index.sqlite") as sink:
        sink.apply("batch/0", observer.changes())
    return tmp_path


def test_quality_shows_what_changed(drifting: Path) -> None:
    assert [" ".join(line) for line in lines(invoke(drifting, "quality", "orders.csv"))] == [
        "file:/data/orders.csv 3 reads and writes, 100 to 100 rows",
        "column type nulls distinct min max",
        "price double 0.0% → 20.0% 1.0 9.0 → 12.5",
        "tax double",
        "id int (gone)",
        "2026-01-02 00:00:00 retyped price: int → double (run run-1)",
        "2026-01-03 00:00:00 added tax; removed id (run run-2)",
    ]


def test_quality_as_json_has_every_run(drifting: Path) -> None:
    found = json.loads(invoke(drifting, "quality", "orders.csv", "--json").stdout)
    assert [run["run_uuid"] for run in found["runs"]] == ["run-2", "run-1", "run-0"]
    assert [run["metrics"]["price"]["nullCount"] for run in found["runs"]] == [20, 5, 0]


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        (("documentation", "ordres"), UsageError, r"Did you mean orders\.py\?"),
        (("documentation", "--out", "page.pdf"), UsageError, "neither .md nor .html"),
        (("documentation", "--out", "nowhere/page.md"), ClewError, "cannot be written"),
        (("quality", "orders.cvs"), UsageError, r"Did you mean orders\.csv"),
        (("performance", "aaaa1112"), UsageError, "Did you mean aaaa1111?"),
        (("lake", "governence"), UsageError, "Did you mean governance?"),
        (("lake",), ClewError, "There is no lake at"),
    ],
)
def test_a_mistake_is_told_with_a_way_out(
    arguments: tuple[str, ...], kind: type[ClewError], sentence: str, home: Path
) -> None:
    with pytest.raises(kind, match=sentence):
        invoke(home, *arguments)


def test_bars_are_as_long_as_their_values() -> None:
    drawn = bars([("a<b", 10.0), ("x" * 60, 5.0), ("none", 0.0)], "ms")
    assert drawn.startswith("<svg ")
    assert 'width="450.0"' in drawn
    assert 'width="225.0"' in drawn
    assert "a&lt;b" in drawn
    assert f"…{'x' * 45}" in drawn
