"""Tests of recorded operations whose result is a Series or a scalar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import clew
from clew.capture.diagnostics import error_counts
from clew.events.streams import STREAM_FILES
from clew.events.validation import schema_violations

DATAFRAME, LINEAGE = "marimo_dataframe_lineage", "marimo_lineage_events"
Run = Callable[..., dict[str, list[dict[str, Any]]]]
LOAD = "df = pd.DataFrame({'g': ['p', 'q', 'p'], 'a': [1, 2, 3], 'b': [4., 5., 6.]})"
NUMBERS = {"out.a": ["df.a"], "out.b": ["df.b"]}


@pytest.mark.parametrize(
    ("code", "kind", "method", "parameters", "column_lineage", "shape"),
    [
        ("df['a']", "selection", "__getitem__", {"key": "'a'"}, {"out.a": ["df.a"]}, [3, 1]),
        ("df.a", "selection", "__getitem__", {}, {"out.a": ["df.a"]}, [3, 1]),
        ("df[['a', 'b']].sum()", "aggregation", "sum", {}, None, [1, 2]),
        ("df.sum(numeric_only=True)", "aggregation", "sum", {"numeric_only": True}, NUMBERS, [1, 2]),
        ("df.count()", "aggregation", "count", {}, {"out.g": ["df.g"], **NUMBERS}, [1, 3]),
        ("df.nunique()", "aggregation", "nunique", {}, {"out.g": ["df.g"], **NUMBERS}, [1, 3]),
        ("df['a'].mean()", "aggregation", "mean", {}, {"out.a": ["df.a"]}, [1, 1]),
        ("df.a.max()", "aggregation", "max", {}, {"out.a": ["df.a"]}, [1, 1]),
        ("df['g'].nunique()", "aggregation", "nunique", {}, {"out.g": ["df.g"]}, [1, 1]),
        ("df['a'].describe()", "aggregation", "describe", {}, {"out.a": ["df.a"]}, [8, 1]),
        ("df['g'].value_counts()", "aggregation", "value_counts", {}, {"out.g": ["df.g"], "out.count": []}, [2, 1]),
        (
            "df.groupby('g')['a'].sum()",
            "aggregation",
            "sum",
            {"by": "g", "key": "'a'"},
            {"out.g": ["df.g"], "out.a": ["df.a"]},
            [2, 1],
        ),
        ("df.groupby('g').size()", "aggregation", "size", {"by": "g"}, {"out.g": ["df.g"], "out.0": []}, [2, 1]),
        ("df.groupby('g').sum()", "aggregation", "sum", {"by": "g"}, {"out.g": ["df.g"], **NUMBERS}, [2, 2]),
        ("df.groupby(by=['g']).a.agg('max')", "aggregation", "agg", {"by": ["g"], "args": ["max"]}, None, [2, 1]),
        ("df.agg({'a': 'sum', 'b': 'max'})", "aggregation", "agg", None, NUMBERS, [1, 2]),
        ("df['a'] + df['b']", "transformation", "__add__", {}, {"out.0": ["df.a", "df.b"]}, [3, 1]),
        ("df['a'] > 1", "transformation", "__gt__", {}, {"out.a": ["df.a"]}, [3, 1]),
        ("df.loc[0, 'a']", "selection", "loc", {"key": "0, 'a'"}, {"out.a": ["df.a"]}, [1, 1]),
        ("df['g'].str.upper()", "transformation", "upper", {}, {"out.g": ["df.g"]}, [3, 1]),
        ("df['a'].head(2)", "selection", "head", {"args": [2]}, {"out.a": ["df.a"]}, [2, 1]),
        ("df['a'].sort_values()", "sort", "sort_values", {}, {"out.a": ["df.a"]}, [3, 1]),
        ("df['a'].rolling(2).mean()", "window", "mean", {"window": 2}, {"out.a": ["df.a"]}, [3, 1]),
    ],
)
def test_series_and_scalars_in_variables_are_recorded(
    run_cells: Run,
    code: str,
    kind: str,
    method: str,
    parameters: dict[str, Any] | None,
    column_lineage: dict[str, list[str]] | None,
    shape: list[int],
) -> None:
    streams = run_cells(LOAD, f"out = {code}")
    event = streams[DATAFRAME][-1]
    assert (event["operation_type"], event["operation_method"], event["operation_code"]) == (kind, method, code)
    assert event["output_dataframes"][0]["variable_name"] == "out"
    assert event["output_dataframes"][0]["shape"] == shape
    if column_lineage is not None:
        assert [frame["variable_name"] for frame in event["input_dataframes"]] == ["df"]
        assert event["column_lineage"] == column_lineage
    if parameters is not None:
        assert event["operation_parameters"] == parameters
    complete = [event for event in streams[LINEAGE] if event["outputs"]][-1]
    assert complete["outputs"][0]["name"] == "book/out"
    for stem, events in streams.items():
        stream = STREAM_FILES[f"{stem}.jsonl"]
        assert [violation for event in events for violation in schema_violations(event, stream)] == []
    assert error_counts() == {}


@pytest.mark.parametrize(
    ("source", "methods"),
    [
        ("df['a'].sum()", ["sum"]),
        ("def total(d):\n    return d['a'].sum()\ntotal(df)", ["sum"]),
        ("def total(d):\n    t = d['a'].sum()\n    return t\ntotal(df)", ["sum"]),
        ("df['c'] = df['a'] + df['b']", ["__setitem__"]),
        ("out = df[df['a'] > df['a'].mean()]", ["__getitem__"]),
        ("out = df.assign(c=lambda d: d['a'] * 2)", ["assign"]),
        ("def double(d):\n    return d['a'] * 2\nout = df.assign(c=double)", ["assign"]),
        ("out = [df[c].sum() for c in ('a', 'b')]", []),
        ("out = (df['a'] * 2 + df['b']).abs().round()", ["round"]),
        ("out = float(df['a'].sum())", []),
        ("for i in range(50):\n    out = df['a'].sum()", ["sum"]),
        ("print('a:', df['a'].sum())", ["sum"]),
        ("print(f'{df.a.sum()} of {df.b.max():.2f}')", ["sum", "max"]),
        ("low, high = df['a'].min(), df['a'].max()", ["min", "max"]),
        ("a, b, c, d = df['a'].min(), df['a'].max(), 3, 4", ["min", "max"]),
        ("df['a'].min(), df['a'].max()", ["min", "max"]),
        ("{'low': df['a'].min(), 'high': df['a'].max()}", ["min", "max"]),
        ("def bounds(d):\n    return d['a'].min(), [d['a'].max()]\nbounds(df)", ["min", "max"]),
        ("def bounds(d):\n    yield d['a'].min()\nlist(bounds(df))", ["min"]),
        ("out = df['a'].sum() if len(df) else 0", ["sum"]),
        ("out = 0 if df.empty else df['a'].sum()", ["sum"]),
        ("out = df['a'].sum() or 0", ["sum"]),
        ("first = second = df['a'].sum()", ["sum"]),
        ("if (out := df['a'].sum()):\n    pass", ["sum"]),
        ("print(len(df['a']))", []),
        ("out = {'low': df['a'].min()}", []),
        ("out = pd.DataFrame({'low': df['a'] * 2})", ["DataFrame"]),
        ("for part in [df['a'], df['b']]:\n    pass", []),
        ("if df['a'].sum():\n    pass", []),
    ],
)
def test_only_results_of_statements_are_recorded(run_cells: Run, source: str, methods: list[str]) -> None:
    events = run_cells(LOAD, source)[DATAFRAME][1:]
    assert [event["operation_method"] for event in events] == methods


def test_the_code_of_an_iteration_is_what_it_iterates_over(run_cells: Run) -> None:
    event = run_cells(LOAD, "for key, part in df.groupby('g'):\n    print(part)")[DATAFRAME][-1]
    found = event["operation_method"], event["operation_code"], event["operation_parameters"], event["line"]
    assert found == ("__iter__", "df.groupby('g')", {"by": "g"}, 1)
    assert [frame["variable_name"] for frame in event["input_dataframes"]] == ["df"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("s = df['b'] * 2\ns /= 3", ("__itruediv__", "s /= 3", ["s"], "s")),
        ("out = np.sqrt(df['b'])", ("sqrt", "np.sqrt(df['b'])", ["df"], "out")),
        ("out = np.maximum(df[['a', 'b']], 2)", ("maximum", "np.maximum(df[['a', 'b']], 2)", None, "out")),
        (
            "out = np.add(df[['a', 'b']], df[['a', 'b']])",
            ("add", "np.add(df[['a', 'b']], df[['a', 'b']])", None, "out"),
        ),
        ("out = np.add.reduce(df['b'])", ("reduce", "np.add.reduce(df['b'])", ["df"], "out")),
        ("out = df.pipe(lambda d: d)", ("pipe", "df.pipe(lambda d: d)", ["df"], "out")),
        ("total = sum(part['b'].sum() for _, part in df.groupby('g'))", ("sum", "part['b'].sum()", None, None)),
    ],
)
def test_operations_without_a_method_call(
    run_cells: Run, source: str, expected: tuple[str, str, list[str] | None, str | None]
) -> None:
    event = run_cells(f"import numpy as np\n{LOAD}", source)[DATAFRAME][-1]
    assert error_counts() == {}
    method, code, inputs, output = expected
    assert (event["operation_method"], event["operation_code"]) == (method, code)
    assert event["line"] == source.count("\n") + 1
    if inputs is not None:
        assert [frame["variable_name"] for frame in event["input_dataframes"]] == inputs
    if output is not None:
        assert [frame["variable_name"] for frame in event["output_dataframes"]] == [output]


def test_a_recorded_series_is_an_input(run_cells: Run) -> None:
    source = "s = df['a']\ntotal = s.sum()\ndf['share'] = s / total\nout = df[s > 1]"
    events = run_cells(LOAD, source)[DATAFRAME][1:]
    inputs = [[frame["variable_name"] for frame in event["input_dataframes"]] for event in events]
    assert inputs == [["df"], ["s"], ["df", "s", "total"], ["df", "s"]]


def test_inputs_have_the_names_of_the_code(run_cells: Run) -> None:
    alias = "df1 = pd.DataFrame({'id': [1, 2], 'a': [3, 4]})\ndf2 = df1.copy()"
    events = run_cells(alias, "df = df1\nout = df[df['a'] > 3]\nboth = df.merge(df2, on='id')", "last = df.head()")[
        DATAFRAME
    ]
    inputs = [[frame["variable_name"] for frame in event["input_dataframes"]] for event in events]
    assert inputs == [[], ["df1"], ["df"], ["df", "df2"], ["df"]]
    assert events[2]["column_lineage"] == {"out.id": ["df.id"], "out.a": ["df.a"]}
    assert {edge["source"] for edge in events[2]["column_lineage_edges"]} == {"df"}


@pytest.mark.parametrize(
    ("source", "column_lineage"),
    [
        ("s = pd.Series([1.5, 2.5], index=['a', 'b'])\nout = (s * 2).to_frame('d')", {"out.d": ["s.0"]}),
        (
            "both = pd.concat([pd.Series([1], name='a'), pd.Series([3], name='b')], axis=1)\nout = both.head()",
            {"out.a": ["both.a"], "out.b": ["both.b"]},
        ),
        ("raw = pd.read_csv(io.StringIO('a\\n1'))\nout = raw.head()", {"out.a": ["raw.a"]}),
    ],
)
def test_literals_and_buffers_are_origins(run_cells: Run, source: str, column_lineage: dict[str, list[str]]) -> None:
    event = run_cells("import io", source)[DATAFRAME][-1]
    assert event["column_lineage"] == column_lineage


def test_literal_series_is_an_origin() -> None:
    series = pd.Series([1.5, 2.5], index=["a", "b"])
    frame = pd.DataFrame({"x": [1, 2]})["x"]
    (edge,) = clew.lineage(series).edges()
    assert (edge.source_column, edge.subtype, edge.opaque) == (0, "IDENTITY", False)
    assert [edge.subtype for edge in clew.lineage(series.rolling(1).mean()).edges()] == ["AGGREGATION"]
    assert [edge.source_column for edge in clew.lineage(pd.concat([series, frame])).edges()] == [0, "x"]


@pytest.mark.parametrize(
    "code",
    [
        "pd.Series({'a': 1}).add(1)",
        "pd.Series([1, 2, 3]).head(2)",
        "pd.Series([[1], [2]]).explode()",
        "pd.to_numeric(pd.Series(['1']))",
        "pd.Series(pd.date_range('2024', periods=3)).dt.year",
        "pd.Series(['a b']).str.split()",
        "pd.period_range('2024', periods=3, freq='M').to_series().astype(str)",
    ],
)
def test_series_of_literals_without_a_variable_are_origins(code: str) -> None:
    series = eval(code)
    (edge,) = clew.lineage(series).edges()
    assert (edge.type, edge.subtype) == ("DIRECT", "IDENTITY")


@pytest.mark.parametrize("code", ["df['g'].value_counts()", "df.groupby('g').size()", "df[['g']].value_counts()"])
def test_row_counts_are_no_origins(code: str) -> None:
    df = pd.DataFrame({"g": ["p", "q"]})
    found = {(edge.column, edge.source, edge.subtype) for edge in clew.lineage(eval(code, {"df": df})).edges()}
    assert found == {("g", "df", "IDENTITY"), (None, "df", "GROUP_BY")}


@pytest.mark.parametrize(
    "code",
    [
        "keys = [k for k, part in df.groupby('k')]; out = pd.DataFrame({'z': keys})",
        "out = pd.DataFrame({'z': [k for k, part in df.groupby('k')]})",
        "keys = sorted(set(df['k'].tolist())); out = pd.DataFrame({'v': [2, 3], 'z': keys})",
        "keys = [k for k, part in df.groupby('k')]; out = df.head(2).assign(v=[2, 3], z=keys)",
        "keys = [k for k, part in df.groupby('k')]; out = df.head(2); out['z'] = keys",
        "keys = [2, 3]; keys = sorted(set(df['k'].tolist())); out = pd.Series(keys).to_frame('z')",
        "out = df[df['k'].isin([2, 3])].head(2).assign(z=[k for k, part in df.groupby('k')])",
    ],
)
def test_computed_lists_equal_to_a_literal_are_no_origins(code: str) -> None:
    df = pd.DataFrame({"k": [2, 3, 2], "v": [1.5, 2.5, 3.5]})
    names: dict[str, Any] = {"pd": pd, "df": df}
    stop = clew.version(df, name="df")
    exec(compile(f"subset = df[df['k'].isin([2, 3])]; {code}", "<pipeline>", "exec"), names)
    edges = [edge for edge in clew.lineage(names["out"], until=[stop]).edges() if edge.column == "z"]
    assert {(edge.source, edge.source_column, edge.opaque) for edge in edges} >= {("df", "k", True)}
    assert all(edge.source == "df" for edge in edges)


@pytest.mark.parametrize(
    "code",
    [
        "out = df.head(2).assign(z=[2, 3])",
        "out = df.head(2).assign(z=(2, 3))",
        "z = [2, 3]; out = df.head(2).assign(z=z)",
        "z = [2, 3]; out = df.head(2); out['z'] = z",
        "out = df[df['k'].isin([2, 3])].head(2).assign(z=[2, 3])",
        "out = df.head(2).assign(v=df['v'].tolist()[:2], z=[2, 3])",
    ],
)
def test_literal_lists_have_no_sources(code: str) -> None:
    names: dict[str, Any] = {"df": pd.DataFrame({"k": [2, 3, 2], "v": [1.5, 2.5, 3.5]})}
    exec(compile(code, "<pipeline>", "exec"), names)
    assert "z" not in {edge.column for edge in clew.lineage(names["out"]).edges()}
