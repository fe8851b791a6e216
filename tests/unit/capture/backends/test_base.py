"""Tests of the facets that name the backend of an operation and of its frames."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest

from clew.capture.backends.base import Call, _describe_running, find_running_operation, get_backend, is_frame
from clew.capture.diagnostics import error_counts
from clew.events.streams import STREAM_FILES
from clew.events.validation import schema_violations

Run = Callable[..., dict[str, list[dict[str, Any]]]]
LINEAGE = "marimo_lineage_events"
VERSIONS = {"pandas": pd.__version__, "polars": pl.__version__, "duckdb": duckdb.__version__}

# Cell, and the engine and the data source of each of its operations.
CASES = [
    ("df = pd.DataFrame({'a': [1]})\nout = df.head()", [("pandas", "pandas-dataframe")] * 2),
    ("t = pl.DataFrame({'a': [1]})\nout = t.filter(pl.col('a') > 0)", [("polars", "polars-dataframe")] * 2),
    (
        "out = pl.LazyFrame({'a': [1]}).select('a').collect()",
        [("polars", "polars-dataframe")] * 3,
    ),
    (
        "df = pd.DataFrame({'a': [1]})\nout = pl.from_pandas(df).to_pandas()",
        [("pandas", "pandas-dataframe"), ("polars", "polars-dataframe"), ("polars", "pandas-dataframe")],
    ),
    (
        "df = pd.DataFrame({'a': [1]})\nrelation = duckdb.sql('select a from df')\nout = relation.df()",
        [("pandas", "pandas-dataframe"), ("duckdb", "duckdb-dataframe"), ("duckdb", "pandas-dataframe")],
    ),
    (
        "t = pl.DataFrame({'a': [1]})\nout = duckdb.sql('select a from t').filter('a > 0').pl()",
        [
            ("polars", "polars-dataframe"),
            ("duckdb", "duckdb-dataframe"),
            ("duckdb", "duckdb-dataframe"),
            ("duckdb", "polars-dataframe"),
        ],
    ),
    ("out = duckdb.connect().execute('select 1 as a').df()", [("duckdb", "pandas-dataframe")]),
]


def operation_events(events: list[dict[str, Any]], kind: str = "COMPLETE") -> list[dict[str, Any]]:
    return [
        event
        for event in events
        if event["eventType"] == kind and event["job"]["facets"]["jobType"]["jobType"] == "OPERATION"
    ]


def engine_of(event: dict[str, Any]) -> tuple[str, str]:
    facet = event["run"]["facets"]["processing_engine"]
    return facet["name"], facet["version"]


@pytest.mark.parametrize(("source", "expected"), CASES, ids=[source for source, _ in CASES])
def test_operations_name_their_backend(run_cells: Run, source: str, expected: list[tuple[str, str]]) -> None:
    events = run_cells(source, namespace={"pl": pl, "duckdb": duckdb})[LINEAGE]
    operations = operation_events(events)
    assert [engine_of(event) for event in operations] == [(name, VERSIONS[name]) for name, _ in expected]
    sources = [event["outputs"][0]["facets"]["dataSource"]["name"] for event in operations]
    assert sources == [source for _, source in expected]
    schema = STREAM_FILES[f"{LINEAGE}.jsonl"]
    assert [violation for event in events for violation in schema_violations(event, schema)] == []
    assert error_counts() == {}


def test_files_keep_their_data_source(run_cells: Run, tmp_path: Path) -> None:
    source = f"pl.DataFrame({{'a': [1]}}).write_csv('{tmp_path}/t.csv')\nout = pl.read_csv('{tmp_path}/t.csv')"
    _, write, read = operation_events(run_cells(source, namespace={"pl": pl})[LINEAGE])
    assert write["outputs"][0]["facets"]["dataSource"]["name"] == "file"
    assert read["inputs"][0]["facets"]["dataSource"]["name"] == "file"
    assert engine_of(write) == engine_of(read) == ("polars", pl.__version__)


@pytest.mark.parametrize(
    ("source", "engine"),
    [("t.select('nope')", "polars"), ("duckdb.sql('select nope from t')", "duckdb"), ("pd.concat([])", "pandas")],
)
def test_failed_calls_name_their_backend(run_cells: Run, source: str, engine: str) -> None:
    setup = "t = pl.DataFrame({'a': [1]})"
    (event,) = operation_events(run_cells(setup, source, namespace={"pl": pl, "duckdb": duckdb})[LINEAGE], "FAIL")
    assert engine_of(event) == (engine, VERSIONS[engine])
    assert event["run"]["facets"]["errorMessage"]["message"]
    assert error_counts() == {}


def test_a_library_that_another_thread_imports_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("polars")
    module.__version__ = "2.0"  # type: ignore[attr-defined]
    module.__spec__ = ModuleSpec("polars", None)
    module.__spec__._initializing = True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "polars", module)
    assert not is_frame(1)


def test_backend_that_another_thread_imports_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "clew.capture.backends.polars.backend"
    complete = sys.modules[name]
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(importlib, "import_module", {name: complete}.__getitem__)
    assert get_backend("polars") is complete.BACKEND


class Remote:
    """A table of a database, which looks up unknown attributes as columns."""

    def __getattr__(self, name: str) -> object:
        pytest.fail(f"the column {name} was looked up")


def test_attributes_of_other_objects_are_not_looked_up(run_cells: Run) -> None:
    streams = run_cells(
        "table = Remote()\ndf = pd.DataFrame({'a': [1, 2]})",
        "rows = [df['a'].sum(), table]\nout = pd.DataFrame({'b': [row for row in rows][:1]})",
        namespace={"Remote": Remote},
    )
    edges = [edge for event in streams["marimo_dataframe_lineage"] for edge in event["column_lineage_edges"]]
    assert ("df", "a") in {(edge["source"], edge["source_column"]) for edge in edges}


def test_progress_of_a_query_does_not_use_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    relation = duckdb.sql("select 1 as a")
    monkeypatch.setattr(type(relation), "__getattr__", Remote.__getattr__, raising=False)
    assert find_running_operation(threading.get_ident()) is None
    call = Call("df", relation, (), {}, None, sys._getframe(), "selection")
    call.started = 1.0
    operation = _describe_running({"call": call, "engine": "duckdb"})
    assert operation is not None
    assert operation.method == "df"
