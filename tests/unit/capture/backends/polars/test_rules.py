"""Tests of lineage of eager and lazy polars frames: each case is an expression over two frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import clew
from clew.capture.diagnostics import error_counts
from clew.capture.emit import column_metrics

ALL_COLUMNS = "k <- t.k IDENTITY, v <- t.v IDENTITY, w <- t.w IDENTITY"

CASES = [
    (
        "t.select('k', (pl.col('v') * 2 + pl.col('w')).alias('c'))",
        "k <- t.k IDENTITY, c <- t.v TRANSFORMATION, c <- t.w TRANSFORMATION",
    ),
    ("t.filter(pl.col('v') > 1).select('k')", "k <- t.k IDENTITY, * <- t.v FILTER"),
    ("t.filter(k='a')", f"{ALL_COLUMNS}, * <- t.k FILTER"),
    ("t.with_columns(s=pl.col('v').sum().over('k'))", f"{ALL_COLUMNS}, s <- t.v AGGREGATION, s <- t.k WINDOW"),
    (
        "t.with_columns(f=pl.when(pl.col('w') > 4).then(pl.col('v')).otherwise(0)).select('f')",
        "f <- t.v TRANSFORMATION, f <- t.w CONDITIONAL",
    ),
    (
        "t.select(pl.col('v').fill_null(pl.col('w')))",
        "v <- t.v TRANSFORMATION, v <- t.v CONDITIONAL, v <- t.w TRANSFORMATION, v <- t.w CONDITIONAL",
    ),
    ("t.select(pl.col('w').cum_sum(), pl.col('v').shift())", "w <- t.w AGGREGATION, v <- t.v TRANSFORMATION"),
    ("t.select(pl.exclude('k') * 2)", "v <- t.v TRANSFORMATION, w <- t.w TRANSFORMATION"),
    (
        "t.group_by('k').agg(pl.col('v').sum().alias('s'), pl.len(), m=pl.col('w').max())",
        "k <- t.k IDENTITY, s <- t.v AGGREGATION, m <- t.w AGGREGATION, * <- t.k GROUP_BY",
    ),
    ("t.group_by('k').mean()", "k <- t.k IDENTITY, v <- t.v AGGREGATION, w <- t.w AGGREGATION, * <- t.k GROUP_BY"),
    (
        "t.join(u, on='k', how='left')",
        f"{ALL_COLUMNS}, x <- u.x IDENTITY, v_right <- u.v IDENTITY, * <- t.k JOIN, * <- u.k JOIN",
    ),
    (
        "t.select('k').join(u.select('k'), on='k', how='full', coalesce=True)",
        (
            "k <- t.k TRANSFORMATION, k <- t.k CONDITIONAL, k <- u.k TRANSFORMATION, k <- u.k CONDITIONAL, "
            "* <- t.k JOIN, * <- u.k JOIN"
        ),
    ),
    ("t.sort('v').head(1).select('k')", "k <- t.k IDENTITY, * <- t.v SORT"),
    ("t.unique(subset=['k']).drop_nulls('w').select('v')", "v <- t.v IDENTITY, * <- t.k FILTER, * <- t.w FILTER"),
    ("t.rename({'v': 'w', 'w': 'v'}).select('v')", "v <- t.w IDENTITY"),
    ("t.unpivot(['v', 'w'], index='k')", "k <- t.k IDENTITY, value <- t.v IDENTITY, value <- t.w IDENTITY"),
    (
        "t.pivot('k', index='w', values='v', aggregate_function='sum')",
        "w <- t.w IDENTITY, a <- t.v AGGREGATION, b <- t.v AGGREGATION, * <- t.k GROUP_BY, * <- t.w GROUP_BY",
    ),
    ("pl.concat([t.select('k'), u.select('k')])", "k <- t.k IDENTITY, k <- u.k IDENTITY"),
    ("t[['v']].sum()", "v <- t.v AGGREGATION"),
    ("t.select(pl.col('v', 'w').name.suffix('_x'))", "v_x <- t.v IDENTITY, w_x <- t.w IDENTITY"),
    ("t.with_columns(pl.all().exclude('k').round(1)).drop('w')", "k <- t.k IDENTITY, v <- t.v TRANSFORMATION"),
    (
        "t.group_by('k').agg(pl.selectors.numeric().mean().name.prefix('m_'))",
        "k <- t.k IDENTITY, m_v <- t.v AGGREGATION, m_w <- t.w AGGREGATION, * <- t.k GROUP_BY",
    ),
    ("t.group_by('k').head(1)", f"{ALL_COLUMNS}, * <- t.k GROUP_BY"),
    ("t.join_where(u, pl.col('w') > pl.col('x')).select('x')", "x <- u.x IDENTITY, * <- t.w JOIN, * <- u.x JOIN"),
    ("t.vstack(t.reverse())", ALL_COLUMNS),
    ("u.select('k').hstack([u['x']])", "k <- u.k IDENTITY, x <- u.x IDENTITY"),
    ("t.select(pl.struct('v').alias('s')).unnest('s')", "v <- t.v TRANSFORMATION"),
    ("t.select(pl.col('v').rolling_mean(2), pl.col('w').quantile(0.5))", "v <- t.v AGGREGATION, w <- t.w AGGREGATION"),
    ("pl.DataFrame({'z': t['v'] * 2, 'l': [1, 2, 3]})", "z <- t.v TRANSFORMATION"),
    ("t.filter(t['v'] > 1).select('w')", "w <- t.w IDENTITY, * <- t.v FILTER"),
    ("t.to_pandas().rename(columns={'v': 'z'})[['z']]", "z <- t.v IDENTITY"),
    (
        "t.lazy().filter(pl.col('w') > 4).group_by('k').agg(pl.col('v').mean()).sort('v').collect()",
        "k <- t.k IDENTITY, v <- t.v AGGREGATION, * <- t.w FILTER, * <- t.k GROUP_BY, * <- t.v SORT",
    ),
    (
        "t.lazy().join(u.lazy().filter(pl.col('x') > 1), on='k').select('w', 'x').collect()",
        "w <- t.w IDENTITY, x <- u.x IDENTITY, * <- u.x FILTER, * <- t.k JOIN, * <- u.k JOIN",
    ),
    ("t.lazy().select('v')", "v <- t.v IDENTITY"),
]


def format_edges(target: Any, **frames: Any) -> set[str]:
    tokens = [clew.version(frame, name=name) for name, frame in frames.items()]
    return {
        f"{'*' if edge.column is None else edge.column} <- {edge.source}.{edge.source_column} {edge.subtype}"
        for edge in clew.lineage(target, until=tokens).edges()
    }


@pytest.mark.parametrize(("code", "expected"), CASES, ids=[code for code, _ in CASES])
def test_expression(code: str, expected: str) -> None:
    t = pl.DataFrame({"k": ["a", "a", "b"], "v": [1.0, 2.0, 3.0], "w": [4, 5, 6]})
    u = pl.DataFrame({"k": ["a", "b"], "x": [1, 2], "v": [0, 1]})
    assert format_edges(eval(code), t=t, u=u) == set(expected.split(", "))
    assert error_counts() == {}


def test_python_function_is_opaque() -> None:
    t = pl.DataFrame({"v": [1.0, 2.0]})
    start = clew.version(t, name="t")
    out = t.select(pl.col("v").map_elements(abs, return_dtype=pl.Float64))
    (edge,) = clew.lineage(out, until=[start]).edges()
    assert (edge.source_column, edge.subtype, edge.opaque) == ("v", "TRANSFORMATION", True)


def test_file_lineage(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    pl.scan_csv(tmp_path / "in.csv").filter(pl.col("b") > 1).select("a").collect().write_parquet(
        tmp_path / "out.parquet"
    )
    source = f"file:{tmp_path}/in.csv"
    assert format_edges(str(tmp_path / "out.parquet")) == {f"a <- {source}.a IDENTITY", f"* <- {source}.b FILTER"}


def test_pandas_round_trip() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    out = pl.from_pandas(frame).with_columns(c=pl.col("a") + pl.col("b")).to_pandas()
    assert format_edges(out[["c"]], frame=frame) == {"c <- frame.a TRANSFORMATION", "c <- frame.b TRANSFORMATION"}


def test_collected_plan_gives_one_event_per_step(run_cells: Any) -> None:
    streams = run_cells(
        "import polars as pl\nt = pl.DataFrame({'k': [1, 1], 'v': [2, 3]})",
        "plan = t.lazy().filter(pl.col('v') > 2).select('k')\nout = plan.collect()",
    )
    operations = streams["marimo_dataframe_lineage"][1:]
    assert [event["operation_method"] for event in operations] == ["lazy", "filter", "select", "collect"]
    assert operations[-1]["output_dataframes"][0]["variable_name"] == "out"
    assert error_counts() == {}


def test_polars_errors_are_unchanged() -> None:
    t = pl.DataFrame({"v": [1.0]})
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        t.select("nope")
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        t.lazy().select("nope").collect()
    assert error_counts() == {}


@pytest.fixture
def no_metrics_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limit of metrics: polars starts its threads on first use."""
    monkeypatch.setattr(column_metrics, "_MIN_SECONDS", 60.0)


@pytest.mark.usefixtures("no_metrics_deadline")
def test_warnings_have_the_users_location() -> None:
    t = pl.DataFrame({"k": ["a", "b"], "v": [1, 2]})
    with pytest.warns(UserWarning, match="Sortedness") as caught:
        t.join_asof(t, on="v", by="k")
    assert caught[0].filename == __file__


def test_metrics_of_named_frames(run_cells: Any) -> None:
    source = "df = pl.DataFrame({'n': [1, 2, None], 't': ['secret', 'words', 'secret'], 'l': [[1], [1], [2]]})"
    events = run_cells(source, namespace={"pl": pl})["marimo_lineage_events"]
    metrics = next(event["outputs"][0]["facets"]["dataQualityMetrics"] for event in events if event["outputs"])
    assert (metrics["rowCount"], metrics["columnMetrics"]) == (
        3,
        {
            "n": {"nullCount": 1, "distinctCount": 2, "min": 1.0, "max": 2.0},
            "t": {"nullCount": 0, "distinctCount": 2},
            "l": {"nullCount": 0, "distinctCount": 2},
        },
    )
    assert error_counts() == {}


@pytest.mark.usefixtures("no_metrics_deadline")
def test_metrics_of_many_rows_are_sampled(run_cells: Any) -> None:
    source = "big = pl.DataFrame({'n': range(200_000), 'o': pl.Series([object()] * 200_000, dtype=pl.Object)})"
    events = run_cells(source, namespace={"pl": pl})["marimo_lineage_events"]
    metrics = next(event["outputs"][0]["facets"]["dataQualityMetrics"] for event in events if event["outputs"])
    assert metrics["sampled"] is True
    assert metrics["columnMetrics"] == {
        "n": {"nullCount": 0, "distinctCount": 10_000, "min": 0.0, "max": 199_999.0},
        "o": {"nullCount": 0},
    }
