"""Tests of lineage of eager and lazy polars frames: each case is an expression over two frames."""

from __future__ import annotations

import http.server
import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import clew
from clew.capture.diagnostics import error_counts
from clew.capture.emit import column_metrics
from clew.capture.introspection.user_code import tracing_suppressed

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
    ("t.select(pl.struct('v').alias('s')).unnest('s')", "v <- t.v IDENTITY"),
    ("t.select(s=pl.struct('v', x='w')).filter(True).unnest('s')", "v <- t.v IDENTITY, x <- t.w IDENTITY"),
    (
        "t.select(pl.struct(pl.col('v').alias('w'), x='w').struct.field('w'))",
        "w <- t.v IDENTITY",
    ),
    ("t.select(z=pl.sum_horizontal(pl.col('v', 'w')))", "z <- t.v TRANSFORMATION, z <- t.w TRANSFORMATION"),
    ("t.select(z=pl.concat_list(pl.exclude('k')).list.max())", "z <- t.v TRANSFORMATION, z <- t.w TRANSFORMATION"),
    ("t.select('k').sort(pl.all())", "k <- t.k IDENTITY, * <- t.k SORT"),
    ("t.select('v').insert_column(0, t['w'].alias('z'))", "v <- t.v IDENTITY, z <- t.w IDENTITY"),
    ("t.select('v', 'w').replace_column(1, t['v'].alias('w'))", "v <- t.v IDENTITY, w <- t.v IDENTITY"),
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
    (
        "pl.concat([t.select('k', 'w'), u.select('k', 'x')], how='align')",
        (
            "k <- t.k TRANSFORMATION, k <- t.k CONDITIONAL, k <- u.k TRANSFORMATION, k <- u.k CONDITIONAL, "
            "w <- t.w IDENTITY, x <- u.x IDENTITY, * <- t.k JOIN, * <- u.k JOIN"
        ),
    ),
    (
        "pl.concat([t.select('k', 'w').lazy(), u.select('k', 'x').lazy()], how='align_right').collect()",
        "k <- u.k IDENTITY, w <- t.w IDENTITY, x <- u.x IDENTITY, * <- t.k JOIN, * <- u.k JOIN",
    ),
    (
        "t.update(u.select('k', v=pl.col('v').cast(float)), on='k').select('v', 'w')",
        (
            "v <- t.v TRANSFORMATION, v <- t.v CONDITIONAL, v <- u.v TRANSFORMATION, v <- u.v CONDITIONAL, "
            "w <- t.w IDENTITY, * <- t.k JOIN, * <- u.k JOIN"
        ),
    ),
    ("t.select('k', 'w').update(u.select('k'), 'k')", "k <- t.k IDENTITY, w <- t.w IDENTITY"),
    ("t.select('w').merge_sorted(t.select('w'), 'w')", "w <- t.w IDENTITY, * <- t.w SORT"),
    ("pl.DataFrame(t.select('k', 'v').get_columns())", "k <- t.k IDENTITY, v <- t.v IDENTITY"),
    ("pl.DataFrame(t.select('k', 'v').to_dict())", "k <- t.k IDENTITY, v <- t.v IDENTITY"),
    ("pl.concat(frame.select('k') for frame in (t, u))", "k <- t.k IDENTITY, k <- u.k IDENTITY"),
    (
        "t.select('k').join(u.select('k'), 'k', 'full', coalesce=True)",
        (
            "k <- t.k TRANSFORMATION, k <- t.k CONDITIONAL, k <- u.k TRANSFORMATION, k <- u.k CONDITIONAL, "
            "* <- t.k JOIN, * <- u.k JOIN"
        ),
    ),
    (
        "t.sort('w').join_asof(u.sort('x'), left_on='w', right_on='x', by_left='k', by_right='k').select('v')",
        "v <- t.v IDENTITY, * <- t.w SORT, * <- u.x SORT, * <- t.w JOIN, * <- u.x JOIN, * <- t.k JOIN, * <- u.k JOIN",
    ),
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
def test_metrics_of_many_rows(run_cells: Any) -> None:
    source = "big = pl.DataFrame({'n': range(200_000), 'o': pl.Series([object()] * 200_000, dtype=pl.Object)})"
    events = run_cells(source, namespace={"pl": pl})["marimo_lineage_events"]
    metrics = next(event["outputs"][0]["facets"]["dataQualityMetrics"] for event in events if event["outputs"])
    assert metrics["columnMetrics"] == {
        "n": {"nullCount": 0, "distinctCount": 200_000, "min": 0.0, "max": 199_999.0},
        "o": {"nullCount": 0},
    }


VERBS = {
    "group_by_dynamic": "df.group_by_dynamic('d', every='1d').agg(pl.col('v').sum())",
    "rolling": "df.rolling('d', period='2d').agg(pl.col('v').sum())",
    "partition_by": "df.partition_by('k')[0]",
    "partition_by dict": "next(iter(df.partition_by('k', as_dict=True).values()))",
    "iterate groups": "[group for _, group in df.group_by('k')][0]",
    "pl.sql": "pl.sql('select v * 2 as v from df').collect()",
    "df.sql": "df.sql('select v * 2 as v from self')",
    "SQLContext": "pl.SQLContext(t=df).execute('select v from t', eager=True)",
    "registered": "pl.SQLContext().register('t', df).execute('select v from t').collect()",
    "arrow": "pl.from_arrow(df.to_arrow())",
    "pandas": "pl.from_pandas(df.to_pandas())",
    "numpy": "pl.DataFrame(df.select('v').to_numpy(), schema=['v'])",
    "collect_all": "pl.collect_all([df.lazy().select('v')])[0]",
    "get_columns": "pl.DataFrame({'v': df.get_columns()[2]})",
    "struct field": "df.select(pl.struct('v', 'k').alias('s')).select(pl.col('s').struct.field('v'))",
    "Series": "df.with_columns(pl.Series('v', df['v'] * 2))",
    "generator": "df.select(pl.col(name) * 2 for name in ['v'])",
    "lazy function": "pl.select(df['v'])",
    "Series.str": "pl.DataFrame({'v': df['v'].cast(pl.String).str.to_uppercase()})",
    "Series.dt": "df['v'].cast(pl.Date).dt.year().to_frame()",
    "Series.list": "df['v'].implode().list.first().to_frame()",
    "Series.arr": "pl.DataFrame({'v': df['v'].reshape((2, 1)).arr.get(0)})",
    "Series.bin": "pl.select(v=df['v'].cast(pl.String).cast(pl.Binary).bin.encode('hex'))",
    "Series.list.eval": "df['v'].implode().list.eval(pl.element() + 1).to_frame()",
}
INFERRED_VERBS = {
    "to_dicts": "pl.DataFrame(df.to_dicts())",
    "from_dicts": "pl.from_dicts(df.to_dicts())",
    "rows": "pl.DataFrame(df.rows(), schema=df.columns, orient='row')",
    "iter_rows": "pl.DataFrame([row for row in df.iter_rows()], schema=df.columns, orient='row')",
    "to_list": "pl.DataFrame({'v': df['v'].to_list()})",
    "map_groups": "df.group_by('k').map_groups(lambda group: group)",
    "struct": "df.select(s=pl.struct('v', 'k')).with_columns(t='s').select(pl.col('t').struct.field('v'))",
    "to_struct": "df.select('v', 'k').to_struct('s').struct.unnest()",
    "Series.struct": "df.select(s=pl.struct('v', 'k'))['s'].struct.field('v').to_frame()",
    "Series.struct[]": "pl.DataFrame({'v': df.select(s=pl.struct('v', 'k'))['s'].struct['v']})",
    "list of structs": (
        "df.group_by('k').agg(s=pl.struct('v', 'd')).select(v=pl.col('s').list.eval(pl.element().struct.field('v')))"
    ),
    "align_frames": "pl.align_frames(df, df.select('k'), on='k')[0]",
    "text": "pl.read_csv(io.StringIO(df.write_csv()))",
    "to pandas": "pd.DataFrame(df.to_dicts())",
}


@pytest.mark.parametrize("is_exact", [True, False])
def test_verbs_lead_to_the_file(tmp_path: Path, *, is_exact: bool) -> None:
    (tmp_path / "t.csv").write_text("d,k,v\n2020-01-01,a,1\n2020-01-02,b,2\n")
    df = pl.read_csv(tmp_path / "t.csv", try_parse_dates=True)
    for name, code in (VERBS if is_exact else INFERRED_VERBS).items():
        out = eval(compile(code, "<cell>", "eval"), {"df": df, "pl": pl, "pd": pd, "io": io})
        found = [edge for edge in clew.lineage(out).edges() if edge.column == "v"]
        assert {edge.source for edge in found} == {f"file:{tmp_path}/t.csv"}, name
        assert "v" in {edge.source_column for edge in found}, name
        assert {edge.opaque for edge in found} == {not is_exact}, name
    assert error_counts() == {}


def test_scalars_in_expressions() -> None:
    df = pl.DataFrame({"qty": [1, 2], "unit": [3.0, 4.5]})
    unit: Any = df["unit"]
    mean = unit.mean()
    high = unit.max() * 2
    start = clew.version(df, name="df")
    for out in (
        df.select(d=pl.col("qty") - mean),
        df.select(d=pl.col("qty") - high),
        df.lazy().with_columns(d=pl.col("qty") - mean).collect(),
    ):
        uses = [edge for edge in clew.lineage(out, until=[start]).edges() if edge.column == "d"]
        found = {(edge.source_column, edge.opaque) for edge in uses}
        assert found == {("qty", False), ("unit", True)}
    rows = {edge.source_column for edge in clew.lineage(df.filter(pl.col("qty") > mean)).edges() if edge.column is None}
    assert rows == {"qty", "unit"}


def test_buffers_are_origins() -> None:
    tips = pl.read_csv(io.BytesIO(b"tip,bill\n1,10\n")).with_columns(r=pl.col("tip") / pl.col("bill"))
    found = {(edge.source, edge.source_column) for edge in clew.lineage(tips).edges() if edge.column == "r"}
    assert found == {("read_csv(BytesIO)", "tip"), ("read_csv(BytesIO)", "bill")}
    assert {edge.source for edge in clew.lineage(pl.read_json(b'[{"a": 1}]')).edges()} == {"read_json(bytes)"}


class _CsvHandler(http.server.BaseHTTPRequestHandler):
    """Serves a CSV file with range requests, and counts the requests."""

    content = b"d,k,v\n2020-01-01,a,1\n"
    count = 0

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        type(self).count += 1
        first, _, last = (self.headers.get("Range") or "bytes=-").removeprefix("bytes=").partition("-")
        body = self.content[int(first or 0) : int(last or len(self.content)) + 1]
        self.send_response(206 if self.headers.get("Range") else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Range", f"bytes {first or 0}-{int(first or 0) + len(body) - 1}/{len(self.content)}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_GET = do_HEAD  # noqa: N815 - called by name


def test_capture_sends_no_requests() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _CsvHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/t.csv"

    def run() -> Any:
        _CsvHandler.count = 0
        lazy = pl.scan_csv(url).with_columns(a=pl.col("v") * 2)
        assert _CsvHandler.count == 0
        return lazy.filter(pl.col("a") > 0).collect()

    with tracing_suppressed():
        run()
        expected = _CsvHandler.count
    out = run()
    assert _CsvHandler.count == expected
    found = {(edge.source, edge.source_column) for edge in clew.lineage(out).edges() if edge.column == "a"}
    assert found == {(url, "v")}
    assert _CsvHandler.count == expected
    server.shutdown()
    server.server_close()


def test_operations_inside_polars_have_the_code_of_the_user(run_cells: Callable[..., Any]) -> None:
    streams = run_cells("import polars as pl\nout = pl.select(a=pl.int_range(3)).head(1)")
    operations = streams["marimo_dataframe_lineage"]
    assert [(event["operation_method"], event["line"]) for event in operations][-2:] == [("select", 2), ("head", 2)]
    assert all("pl.select(a=" in event["operation_code"] for event in operations)


def test_functions_that_fold_columns_are_opaque() -> None:
    df = pl.DataFrame({"a": [1, 2], "b": [3, 4]})
    out = df.select(z=pl.fold(pl.lit(0), lambda total, column: total + column, [pl.col("a", "b")]))
    assert {(edge.source_column, edge.opaque) for edge in clew.lineage(out).edges()} == {("a", True), ("b", True)}


def test_buffers_are_written_and_read_again() -> None:
    frame = pl.DataFrame({"a": [1, 2]})
    start, buffer = clew.version(frame, name="frame"), io.BytesIO()
    frame.write_parquet(buffer)
    buffer.seek(0)
    edges = clew.lineage(pl.read_parquet(buffer), until=[start]).edges()
    assert [(edge.source, edge.source_column, edge.opaque) for edge in edges] == [("frame", "a", True)]


def test_errors_in_generators_have_no_frames_of_capture() -> None:
    frame = pl.DataFrame({"a": [1, 2]})
    with pytest.raises(ZeroDivisionError) as raised:
        frame.select(pl.col("a") / (1 // 0) for _ in "a")
    assert not [entry for entry in raised.traceback if "clew/capture" in str(entry.path)]


@pytest.mark.parametrize(
    ("code", "label", "sources"),
    [
        ("first, *rest = t['v'].to_list(); out = t.select(c=pl.col('w') - first)", "c", {"v", "w"}),
        ("out = t.select(c=pl.lit(t['v'][1]))", "c", {"v"}),
        ("out = t.select(c=pl.lit(t[1, 'v']))", "c", {"v"}),
        ("out = t.select(c=pl.lit(t.item(1, 'v')))", "c", {"v"}),
        ("low, high = t.select(a='v', b='w').row(1); out = t.select(c=pl.col('w') * low)", "c", {"v", "w"}),
        ("n = t.filter(pl.col('v') > 1).height; out = t.select(c=pl.Series([n * 1.5]))", "c", {"v"}),
        (
            "m = dict(zip(t['v'], t['w'])); out = t.select(c=pl.col('v').map_elements(lambda x: m.get(x)))",
            "c",
            {"v", "w"},
        ),
        (
            "out = pl.json_normalize([{'c': {'d': row['v']}} for row in t.iter_rows(named=True)])",
            "c.d",
            {"k", "v", "w"},
        ),
        ("out = t.select(c=np.log(t['v']))", "c", {"v"}),
        ("out = t.filter(t['v'].to_numpy() > 1).select('k')", None, {"v"}),
        ("out = t.filter([value > 1 for value in t['v']]).select('k')", None, {"v"}),
        ("out = t[t['v'].arg_sort()].select('k')", None, {"v"}),
        ("out = t[t['v'].arg_sort().to_list()].select('k')", None, {"v"}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_values_that_leave_polars(code: str, label: str | None, sources: set[str]) -> None:
    t = pl.DataFrame({"k": ["a", "a", "b"], "v": [1.5, 2.5, 3.5], "w": [4, 5, 6]})
    names: dict[str, Any] = {"pl": pl, "np": np, "t": t}
    stop = clew.version(t, name="t")
    exec(compile(code, "<pipeline>", "exec"), names)
    edges = clew.lineage(names["out"], until=[stop]).edges()
    assert {edge.source_column for edge in edges if edge.column == label} == sources


@pytest.mark.parametrize(
    ("code", "sources"),
    [
        ("out = pl.DataFrame({'c': sorted(set(t['w'].to_list()))})", {("w", True)}),
        ("keys = [key[0] for key, part in t.group_by('w')]; out = pl.DataFrame({'c': keys})", {("w", True)}),
        ("keys = sorted(set(t['w'].to_list())); out = t.select(c=pl.Series(keys))", {("w", True)}),
        ("low, high = sorted(set(t['w'].to_list())); out = pl.DataFrame({'c': [low, high]})", {("w", True)}),
        ("out = pl.DataFrame({'c': [4, 5]})", set()),
        ("keys = [4, 5]; out = pl.DataFrame({'c': keys})", set()),
    ],
)
def test_computed_lists_equal_to_a_literal_are_no_origins(code: str, sources: set[tuple[str, bool]]) -> None:
    t = pl.DataFrame({"w": [4, 5, 4]})
    names: dict[str, Any] = {"pl": pl, "t": t}
    stop = clew.version(t, name="t")
    exec(compile(f"subset = t.filter(pl.col('w').is_in([4, 5])); {code}", "<pipeline>", "exec"), names)
    edges = clew.lineage(names["out"], until=[stop]).edges()
    assert {(edge.source_column, edge.opaque) for edge in edges if edge.column == "c"} == sources
