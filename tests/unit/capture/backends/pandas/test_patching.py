"""Tests of patched pandas: results, warnings and their locations are the same with and without capture."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import clew
from clew.capture.diagnostics import error_counts
from clew.capture.tracking import untrack

SNIPPETS = {
    "chained setitem": "df['a'][0] = 9",
    "chained loc": "df['a'].loc[0] = 9",
    "chained iloc of rows": "df[df['a'] > 1].iloc[0, 0] = 9",
    "chained fillna": "df['a'].fillna(0, inplace=True)",
    "chained replace": "df['a'].replace(1, 2, inplace=True)",
    "chained update": "df[['a']].update(df)",
    "setitem on a name": "df['a'] = 9",
    "loc on a name": "df.loc[0, 'a'] = 9",
    "fillna in place on a name": "s = df['a']; s.fillna(0, inplace=True)",
    "query with a local": "lim = 1; out = df.query('a > @lim')",
    "query in a function": "def f(d):\n    lim = 1\n    return d.query('a > @lim')\nout = f(df)",
    "eval with a local": "two = 2; out = df.eval('c = a * @two')",
    "missing column": "df['nope']",
    "wrong merge": "df.merge(df, on='nope')",
    "callable that returns a tuple": "df.iloc[lambda d: (0, 0)]",
    "invalid dates": "out = pd.to_datetime(pd.Series(['2024-01-01', 'x']), errors='coerce')",
    "deprecated frequency": "out = pd.date_range('2024', periods=2, freq='MS')",
    "ufunc on frames": "out = np.add(df, df)",
    "iteration": "out = [name for name in df], list(df.items())[0][0], list(df['a'])",
}


def outcome(snippet: str) -> tuple[Any, ...]:
    """Run a snippet and return its error, its warnings with their locations, and the resulting frames."""
    namespace: dict[str, Any] = {"pd": pd, "np": np, "df": pd.DataFrame({"a": [1.0, 2.0, None], "b": [3, 4, 5]})}
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(compile(snippet, "<snippet>", "exec"), namespace)
        except Exception as raised:  # noqa: BLE001 - whatever pandas raises must be the same
            error = (type(raised), str(raised))
    frames = {
        name: value.to_json(date_format="iso")
        for name, value in namespace.items()
        if isinstance(value, (pd.DataFrame, pd.Series))
    }
    return error, [(w.category, str(w.message), w.filename, w.lineno) for w in caught], frames


@pytest.mark.parametrize("snippet", SNIPPETS.values(), ids=SNIPPETS.keys())
def test_same_outcome_under_capture(snippet: str) -> None:
    captured = outcome(snippet)
    untrack()
    assert captured == outcome(snippet)
    clew.track()
    assert error_counts() == {}


def test_docstrings_and_signatures_are_unchanged() -> None:
    assert (pd.DataFrame.merge.__doc__ or "").lstrip().startswith("Merge DataFrame")
    assert pd.DataFrame.merge.__name__ == "merge"


def test_untrack_removes_all_patches() -> None:
    assert hasattr(pd.DataFrame.merge, "__wrapped__")
    untrack()
    assert not hasattr(pd.DataFrame.head, "__wrapped__")
    assert not any(name.startswith("_clew") for owner in (pd.DataFrame, pd.Series, pd.Index) for name in dir(owner))
    frame = pd.DataFrame({"a": [1]})
    start = clew.version(frame, name="frame")
    assert {edge.source for edge in clew.lineage(frame, until=[start]).edges()} <= {"frame"}


ELEMENTS = "df = pd.DataFrame({'a': [0.0] * 300, 'b': [1.0] * 300, 'c': [2.0] * 300})"


@pytest.mark.parametrize(
    ("source", "counts", "sources"),
    [
        ("for i in range(300):\n    df.at[i, 'a'] = df.at[i, 'b']", {"at": 300}, {"a", "b"}),
        ("for i in range(300):\n    df.loc[i, 'a'] = df['b'].max()", {"loc": 300}, {"a", "b"}),
        ("for i in range(300):\n    df.iat[i, 0] = i", {"iat": 300}, {"a"}),
        ("for i, row in df.iterrows():\n    df.at[i, 'a'] = row['b'] + row['c']", {"at": 300}, {"a", "b", "c"}),
        (
            "for i in range(300):\n    df.at[i, 'a'] = df.at[i, 'b']\n    df.iat[i, 1] = 0",
            {"at": 300, "iat": 300},
            {"a", "b"},
        ),
        (
            "for _ in range(2):\n    df['a'] = 0.0\n    for i in range(150):\n        df.at[i, 'a'] = df.at[i, 'b']",
            {"at": 300, "__setitem__": 2},
            {"b"},
        ),
        ("for i, row in df.iterrows():\n    x = row['b']\ndf['a'] = x", {"__getitem__": 300, "__setitem__": 1}, {"b"}),
        (
            "for name in ('b', 'c'):\n    for i in range(150):\n        df.at[i, 'a'] = df.at[i, name]",
            {"at": 300},
            {"a", "b", "c"},
        ),
        ("for i in range(600):\n    df.loc[i, 'a'] = 1.0", {"loc": 600}, {"a"}),
    ],
)
def test_repeated_element_accesses_are_counted(
    run_cells: Callable[..., Any], source: str, counts: dict[str, int], sources: set[str]
) -> None:
    found: set[str] = set()
    trace = (
        "found.update(edge.source_column for edge in clew.lineage(df).edges() if edge.column == 'a')\nout = df.head()"
    )
    streams = run_cells(ELEMENTS, source, trace, namespace={"found": found, "clew": clew})
    events = streams["marimo_dataframe_lineage"]
    totals: Counter[str] = Counter()
    for event in events[1:-1]:
        totals[event["operation_method"]] += event["count"]
    assert totals == counts
    assert found == sources
    assert events[-1]["input_dataframes"][0]["shape"][0] == max(300, counts.get("loc", 0))
