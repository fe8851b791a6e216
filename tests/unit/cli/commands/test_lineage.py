"""Tests of `clew downstream`, `path`, `impact`, `diff`, `search` and `export` on the run of a small notebook."""

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
from clew.index.queries.reader import IndexReader
from clew.query import names, service


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
# A frame that is modified in place is one node, so a reader may be connected to either state of it.
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
def test_downstream_accepts_names_and_node_ids(name: str, expected: list[str], home: Path) -> None:
    assert lines(invoke(home, "downstream", name)) == expected


def test_downstream_all_includes_frames(home: Path) -> None:
    output = lines(invoke(home, "downstream", "orders.csv.price", "--all"))
    assert [line.partition("  ")[0] for line in output] == [
        "orders.csv.price",
        "df@1.price",
        "df@2.price",
        "totals@1.sum",
        "totals.parquet.sum",
    ]


def test_downstream_prints_summary(home: Path) -> None:
    assert invoke(home, "downstream", "orders.csv").stderr == "1 dataset, 4 jobs downstream.\n"
    assert "; truncated, raise --limit." in invoke(home, "downstream", "orders.csv", "--limit", "2").stderr


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
def test_path_is_found_in_both_directions(start: str, end: str, expected: list[str], home: Path) -> None:
    output = lines(invoke(home, "path", start, end))
    assert [line[: len(prefix)] for line, prefix in zip(output, expected, strict=True)] == expected


def test_path_exits_with_1_if_there_is_none(home: Path) -> None:
    result = invoke(home, "path", "orders.csv.id", "totals.parquet.sum")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "No path between orders.csv.id and totals.parquet.sum.\n"


def test_impact_distinguishes_direct_and_indirect(home: Path) -> None:
    price = json.loads(invoke(home, "impact", "orders.csv.price", "--json").stdout)
    order_id = json.loads(invoke(home, "impact", "orders.csv.id", "--json").stdout)
    dependencies = [(affected["dataset"]["name"], affected["dependencyType"]) for affected in price["affected"]]
    assert dependencies == [("/data/totals.parquet", "DIRECT")]
    assert [affected["dependencyType"] for affected in order_id["affected"]] == ["INDIRECT"]
    result = invoke(home, "impact", "orders.csv.price")
    assert result.stdout.splitlines()[1].split()[:4] == ["file:/data/totals.parquet", "1", "direct", "sum"]
    assert result.stderr == "1 dataset affected directly, 0 indirectly.\n"


@pytest.fixture
def two_sessions(notebook_events: Any) -> Path:
    """Index two sessions of a notebook, the second with another column and other code."""
    for session_id, columns in (("aaaa1111", ["price"]), ("bbbb2222", ["price", "tax"])):
        session = notebook_events.session(session_id)
        session.run("START")
        session.operation("load", "sales.parquet", {name: [("orders.csv", name)] for name in columns})
        session.run("COMPLETE")
    path: Path = notebook_events.index_events()
    return path.parent


def test_diff_of_versions_shows_columns_and_lineage(two_sessions: Path) -> None:
    output = lines(invoke(two_sessions, "diff", "--dataset", "sales.parquet"))
    assert output[0].startswith("file:/data/sales.parquet: run ")
    assert output[1:] == ["+ column tax", "+ tax ← orders.csv.tax identity"]


def test_diff_of_sessions(two_sessions: Path) -> None:
    diff = json.loads(invoke(two_sessions, "diff", "aaaa1111", "bbbb2222", "--json").stdout)
    assert (diff["left"] != diff["right"], diff["state"]) == (True, None)
    same = invoke(two_sessions, "diff", "aaaa1111", "aaaa1111")
    assert (same.exit_code, same.stdout, same.stderr) == (0, "", "No differences.\n")


def test_search_matches_word_prefixes(home: Path) -> None:
    output = lines(invoke(home, "search", "totals", "parq"))
    assert output[0].split()[:3] == ["dataset", "file", "/data/totals.parquet"]
    none = invoke(home, "search", "totalz")
    assert (none.exit_code, none.stdout) == (1, "")
    assert none.stderr == "No results. Did you mean total, totals?\n"


@pytest.mark.parametrize(
    ("output_format", "parts"),
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
def test_export_text_formats(output_format: str, parts: list[str], home: Path) -> None:
    output = invoke(home, "export", "totals.parquet", "--format", output_format).stdout
    for part in parts:
        assert part in output


def test_export_parquet(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "edges.parquet"
    summary = json.loads(invoke(home, "export", "totals.parquet", "--out", str(out), "--json").stdout)
    assert summary == {"format": "parquet", "file": str(out), "bytes": out.stat().st_size}
    table = pq.read_table(io.BytesIO(out.read_bytes()))
    assert table.num_rows == 6
    assert table.column("to").to_pylist()[0] == "dataset:file:/data/totals.parquet"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("downstream", "orders.cvs"), r"Did you mean orders\.csv"),
        (("downstream", "orders.csv.prize"), r"Did you mean price\?"),
        (("downstream", "run:0195486f-8a00-7000-8000-000000000001"), "There is no run or session"),
        (
            ("path", "orders.csv", "totals.parquet.sum"),
            r"Cannot find a path between orders\.csv \(dataset\) and totals\.parquet\.sum \(column\)\.",
        ),
        (("diff", "aaaa1111", "aaaa1112"), r"Did you mean aaaa1111\?"),
        (("diff", "--dataset", "orders.csv"), "nothing to compare"),
        (("export", "orders.csv"), r"Cannot infer the format\.\nPass --format"),
        (("export", "orders.csv", "--out", "x.pdf"), r"Cannot infer the format from x\.pdf\.\nPass --format"),
        (("export", "orders.csv", "--format", "svg", "--json"), r"Pass the output file with --out\."),
        (("export", "orders.csv", "--out", "nowhere/x.svg"), r"Cannot write nowhere/x\.svg"),
        (("export", "aaaa1111", "--format", "ndjson"), "There is no lake"),
    ],
)
def test_user_error_is_reported_with_hint(arguments: tuple[str, ...], message: str, home: Path) -> None:
    with pytest.raises(ClewError, match=message):
        invoke(home, *arguments)


def test_ambiguous_name_lists_candidates(notebook_events: Any) -> None:
    for notebook in ("one", "two"):
        notebook_events.session(f"{notebook:x<8}", notebook).operation("load", "df@1", {"id": [("orders.csv", "id")]})
    home = notebook_events.index_events().parent
    with pytest.raises(UsageError, match="'df' matches 2 datasets: marimo:two/df, marimo:one/df"):
        invoke(home, "downstream", "df")


@pytest.mark.parametrize("name", ["downstream", "impact", "search"])
def test_missing_index_is_reported(name: str, tmp_path: Path) -> None:
    with pytest.raises(ClewError, match="There is no index at"):
        invoke(tmp_path, name, "x")


@pytest.mark.parametrize("name", ["totals.parquet.sum", "totals.parquet", "orders/save/dataframe_save"])
def test_upstream_opens_the_index_once_and_resolves_the_name_once(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def count(owner: Any, function: str) -> None:
        original = getattr(owner, function)

        def counted(*args: Any, **kwargs: Any) -> Any:
            calls.append(function)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, function, counted)

    count(IndexReader, "__init__")
    count(service, "resolve_name")
    for resolver in ("match_datasets", "resolve_column", "resolve_node_id", "resolve_field_id"):
        count(names, resolver)
    assert invoke(home, "upstream", name).exit_code == 0
    # A column is tried as the name of a dataset first.
    assert calls == ["__init__", "resolve_name", "match_datasets", *["match_datasets"] * (name.count(".") - 1)]
