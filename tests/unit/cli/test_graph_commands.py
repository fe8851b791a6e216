"""`clew downstream`, `path`, `impact`, `diff`, `search` and `export`, over the run of a small notebook."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli
from clew.errors import ClewError, UsageError


@pytest.fixture
def home(orders: Any) -> Path:
    folder: Path = orders.index.parent
    return folder


def invoke(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--home", str(home)], catch_exceptions=False)


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    return [line.strip(" │├└─") for line in result.stdout.splitlines()]


COLUMN = [
    "orders.csv.price  column file",
    "totals.parquet.sum  column file  aggregation",
]
DATASET = [
    "orders.csv  dataset file",
    "dataframe_load  job marimo  read",
    "dataframe_keep  job marimo  memory",
    "dataframe_total  job marimo  memory",
    "dataframe_save  job marimo  memory",
    "totals.parquet  dataset file  write",
]
# Of a frame that is changed in place the graph knows the name: who reads it may have read either state.
SHORTEST = [line for line in DATASET if "keep" not in line]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders.csv.price", COLUMN),
        ("datasetField:file:/data/orders.csv:price", COLUMN),
        ("orders.csv", DATASET),
        ("dataset:file:/data/orders.csv", DATASET),
        ("orders/save/dataframe_save", ["dataframe_save  job marimo", DATASET[-1]]),
        ("job:marimo:orders/save/dataframe_save", ["dataframe_save  job marimo", DATASET[-1]]),
        ("totals.parquet", ["totals.parquet  dataset file"]),
    ],
)
def test_downstream_of_whatever_is_named(name: str, expected: list[str], home: Path) -> None:
    assert lines(invoke(home, "downstream", name)) == expected


def test_downstream_shows_frames_if_asked(home: Path) -> None:
    shown = lines(invoke(home, "downstream", "orders.csv.price", "--all"))
    assert [line.partition("  ")[0] for line in shown] == [
        "orders.csv.price",
        "df@1.price",
        "df@2.price",
        "totals@1.sum",
        "totals.parquet.sum",
    ]


def test_downstream_tells_how_much(home: Path) -> None:
    assert invoke(home, "downstream", "orders.csv").stderr == "1 dataset, 4 jobs downstream.\n"
    assert "there is more: raise --limit" in invoke(home, "downstream", "orders.csv", "--limit", "2").stderr


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("orders.csv", "totals.parquet", SHORTEST),
        ("totals.parquet", "orders.csv", SHORTEST),
        (
            "orders.csv.price",
            "totals.parquet.sum",
            ["file:/data/orders.csv:price", "→ file:/data/totals.parquet:sum  aggregation by "],
        ),
    ],
)
def test_a_path_whichever_end_is_the_source(start: str, end: str, expected: list[str], home: Path) -> None:
    shown = lines(invoke(home, "path", start, end))
    assert [line[: len(begun)] for line, begun in zip(shown, expected, strict=True)] == expected


def test_where_nothing_leads_it_says_so_and_ends_with_1(home: Path) -> None:
    ended = invoke(home, "path", "orders.csv.id", "totals.parquet.sum")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr == "Nothing leads from orders.csv.id to totals.parquet.sum, nor back.\n"


def test_impact_tells_values_from_a_say(home: Path) -> None:
    price = json.loads(invoke(home, "impact", "orders.csv.price", "--json").stdout)
    order_id = json.loads(invoke(home, "impact", "orders.csv.id", "--json").stdout)
    assert [(one["dataset"]["name"], one["how"]) for one in price["affected"]] == [("/data/totals.parquet", "DIRECT")]
    assert [one["how"] for one in order_id["affected"]] == ["INDIRECT"]
    shown = invoke(home, "impact", "orders.csv.price")
    assert shown.stdout.splitlines()[1].split()[:4] == ["file:/data/totals.parquet", "1", "values", "sum"]
    assert shown.stderr == "1 dataset by values, 0 datasets by a say only.\n"


@pytest.fixture
def twice(story: Any) -> Path:
    """Two sessions of a notebook, the second with another column and other code."""
    for session_id, columns in (("aaaa1111", ["price"]), ("bbbb2222", ["price", "tax"])):
        session = story.session(session_id)
        session.run("START")
        session.operation("load", "sales.parquet", {name: [("orders.csv", name)] for name in columns})
        session.run("COMPLETE")
    path: Path = story.tell()
    return path.parent


def test_a_diff_of_versions_shows_columns_and_lineage(twice: Path) -> None:
    shown = lines(invoke(twice, "diff", "--dataset", "sales.parquet"))
    assert shown[0].startswith("file:/data/sales.parquet: run ")
    assert shown[1:] == ["+ column tax", "+ tax ← orders.csv.tax identity"]


def test_a_diff_of_sessions(twice: Path) -> None:
    found = json.loads(invoke(twice, "diff", "aaaa1111", "bbbb2222", "--json").stdout)
    assert (found["left"] != found["right"], found["state"]) == (True, None)
    same = invoke(twice, "diff", "aaaa1111", "aaaa1111")
    assert (same.exit_code, same.stdout, same.stderr) == (0, "", "Nothing differs.\n")


def test_search_finds_by_words(home: Path) -> None:
    shown = lines(invoke(home, "search", "totals", "parq"))
    assert shown[0].split()[:3] == ["dataset", "file", "/data/totals.parquet"]
    none = invoke(home, "search", "totalz")
    assert (none.exit_code, none.stdout) == (1, "")
    assert none.stderr == "Nothing was found. Did you mean total, totals?\n"


@pytest.mark.parametrize(
    ("form", "parts"),
    [
        ("mermaid", ["flowchart LR", 'n0["totals.parquet"]', "n1 --> n0"]),
        (
            "dot",
            ["digraph lineage {", '"job:marimo:orders/save/dataframe_save" -> "dataset:file:/data/totals.parquet"'],
        ),
        ("svg", ["<svg ", "<title>dataset:file:/data/orders.csv</title>"]),
        ("html", ["<!doctype html>", "<svg "]),
    ],
)
def test_a_lineage_is_exported_as_text(form: str, parts: list[str], home: Path) -> None:
    shown = invoke(home, "export", "totals.parquet", "--format", form).stdout
    for part in parts:
        assert part in shown


def test_a_lineage_is_exported_as_parquet(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "edges.parquet"
    told = json.loads(invoke(home, "export", "totals.parquet", "--out", str(out), "--json").stdout)
    assert told == {"form": "parquet", "file": str(out), "bytes": out.stat().st_size}
    table = pq.read_table(io.BytesIO(out.read_bytes()))
    assert table.num_rows == 6
    assert table.column("to").to_pylist()[0] == "dataset:file:/data/totals.parquet"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("downstream", "orders.cvs"), r"Did you mean orders\.csv"),
        (("downstream", "orders.csv.prize"), r"Did you mean price\?"),
        (("downstream", "run:0195486f-8a00-7000-8000-000000000001"), "There is no run or session"),
        (("path", "orders.csv", "totals.parquet.sum"), "are not of a kind"),
        (("diff", "aaaa1111", "aaaa1112"), r"Did you mean aaaa1111\?"),
        (("diff", "--dataset", "orders.csv"), "nothing to compare"),
        (("export", "orders.csv"), "The form is not told"),
        (("export", "orders.csv", "--out", "x.pdf"), "tells no form"),
        (("export", "orders.csv", "--format", "svg", "--json"), "Name it with --out."),
        (("export", "orders.csv", "--out", "nowhere/x.svg"), "cannot be written"),
        (("export", "aaaa1111", "--format", "ndjson"), "There is no lake"),
    ],
)
def test_a_mistake_is_told_with_a_way_out(arguments: tuple[str, ...], sentence: str, home: Path) -> None:
    with pytest.raises(ClewError, match=sentence):
        invoke(home, *arguments)


def test_an_ambiguous_name_lists_its_candidates(story: Any) -> None:
    for notebook in ("one", "two"):
        story.session(f"{notebook:x<8}", notebook).operation("load", "df@1", {"id": [("orders.csv", "id")]})
    home = story.tell().parent
    with pytest.raises(UsageError, match="'df' names 2 datasets: marimo:two/df, marimo:one/df"):
        invoke(home, "downstream", "df")


@pytest.mark.parametrize("name", ["downstream", "impact", "search"])
def test_without_an_index_it_says_how_to_get_one(name: str, tmp_path: Path) -> None:
    with pytest.raises(ClewError, match="There is no index at"):
        invoke(tmp_path, name, "x")
