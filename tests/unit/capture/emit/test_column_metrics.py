"""Tests of column metrics: exact or marked as estimates, for outputs and inputs, once per version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from clew.capture.backends.base import require_backend
from clew.capture.emit import column_metrics
from clew.capture.emit.column_metrics import frame_metrics

ROWS = 300_000
DISTINCT = {"keys": 1_000, "groups": 3, "ids": ROWS, "names": ROWS, "skewed": None}

RunCells = Callable[..., dict[str, list[dict[str, Any]]]]


def make_frame() -> pd.DataFrame:
    numbers = np.arange(ROWS)
    return pd.DataFrame(
        {
            "keys": numbers % 1_000,
            "groups": np.array(["a", "b", "c"])[numbers % 3],
            "ids": numbers,
            "names": [f"n{number}" for number in numbers],
            "skewed": np.where(numbers % 2 == 0, 0, numbers % 5_000),
        }
    )


@pytest.fixture(params=["pandas", "polars"])
def frame(request: pytest.FixtureRequest) -> Any:
    pandas_frame = make_frame()
    return pandas_frame if request.param == "pandas" else pl.from_pandas(pandas_frame)


def test_counts_within_the_budget_are_exact(frame: Any) -> None:
    metrics = frame_metrics(frame, seconds=60.0)
    expected = {**DISTINCT, "skewed": 2_501}
    assert {name: column["distinctCount"] for name, column in metrics["columnMetrics"].items()} == expected
    assert "sampled" not in metrics
    assert not any("sampled" in column for column in metrics["columnMetrics"].values())


def test_counts_beyond_the_budget_are_marked_estimates(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_metrics, "_NANOSECONDS_PER_VALUE", 10**9)
    metrics = frame_metrics(frame, seconds=60.0)
    assert metrics["sampled"] is True
    columns = metrics["columnMetrics"]
    assert all(column["sampled"] for column in columns.values())
    for name, expected in {**DISTINCT, "skewed": 2_501}.items():
        assert columns[name]["distinctCount"] == pytest.approx(expected, rel=0.15), name


def test_nulls_are_not_counted_in_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_metrics, "_NANOSECONDS_PER_VALUE", 10**9)
    values = np.where(np.arange(ROWS) % 4 == 0, np.nan, np.arange(ROWS) % 50)
    column = frame_metrics(pd.DataFrame({"a": values}), seconds=60.0)["columnMetrics"]["a"]
    assert (column["nullCount"], column["min"], column["max"]) == (ROWS // 4, 0.0, 49.0)
    assert column["distinctCount"] == len(np.unique(values[~np.isnan(values)]))


def test_columns_after_the_deadline_are_omitted() -> None:
    metrics = frame_metrics(make_frame(), seconds=-1.0)
    assert metrics["columnMetrics"] == {}
    assert metrics["omitted"] == list(DISTINCT)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [1, 2], "b": ["x", "longer text"]}),
        pd.DataFrame({"a": ["x", None]}, dtype=object),
        # The garbage collector keeps a header for containers.
        pd.DataFrame({"a": [[1], {"b": 2}], "b": [{1, 2}, (1,)]}),
        pd.DataFrame({"c": pd.Categorical(["x", "y", "x"])}, index=["p", "q", "r"]),
        pd.DataFrame({"d": pd.date_range("2020", periods=3), "e": pd.array([1, None, 3], dtype="Int64")}),
    ],
)
def test_memory_is_that_of_pandas(frame: pd.DataFrame) -> None:
    memory, is_exact = require_backend(frame).memory_bytes(frame)
    assert (memory, is_exact) == (frame.memory_usage(deep=True).sum(), True)


def test_memory_of_many_objects_is_a_marked_estimate() -> None:
    frame = pd.DataFrame({"a": pd.Series([f"{number:012}" for number in range(200_000)], dtype=object)})
    memory, is_exact = require_backend(frame).memory_bytes(frame)
    assert not is_exact
    assert memory == pytest.approx(frame.memory_usage(deep=True).sum(), rel=0.05)


def completes(streams: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    events = streams["marimo_lineage_events"]
    return {event["job"]["name"].split("/")[-1]: event for event in events if event["eventType"] == "COMPLETE"}


def input_metrics(event: dict[str, Any]) -> dict[str, Any]:
    (dataset,) = event["inputs"]
    metrics: dict[str, Any] = dataset["inputFacets"]["dataQualityMetrics"]
    return metrics


def test_inputs_in_memory_have_metrics(run_cells: RunCells) -> None:
    streams = run_cells(
        "df = pd.DataFrame({'a': [1, 1, 2], 'b': ['x', 'y', 'z']})",
        "df['c'] = df['a'] * 2\ntop = df.head(2)",
        "last = top.tail(1)",
    )
    events = completes(streams)
    first = input_metrics(events["dataframe_setitem"])
    assert first["rowCount"] == 3
    assert first["columnMetrics"]["a"] == {"nullCount": 0, "distinctCount": 2, "min": 1.0, "max": 2.0}
    # Of the version that was changed in place, not of the one before.
    assert input_metrics(events["dataframe_head"])["columnMetrics"]["c"]["max"] == 4.0
    assert input_metrics(events["dataframe_tail"])["columnMetrics"]["c"]["max"] == 2.0


def test_frames_within_one_cell_have_metrics_where_their_values_are_known(run_cells: RunCells) -> None:
    streams = run_cells(
        "df = pd.DataFrame({'a': [2, 1], 'b': [3, 3]})\ndf['c'] = 1\ndf['a'] = 0\nout = df[df['b'] > 5].head(1)"
    )
    events = completes(streams)
    # Version 1 has the same `b` as the last version; its `a` was overwritten later.
    assert input_metrics(events["dataframe_setitem"])["columnMetrics"] == {
        "b": {"nullCount": 0, "distinctCount": 1, "min": 3.0, "max": 3.0}
    }
    # A frame that no variable holds: only its number of rows is known.
    assert input_metrics(events["dataframe_head"])["rowCount"] == 0


def test_a_version_is_measured_once(run_cells: RunCells, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Any] = []

    def count_calls(frame: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        measured.append(frame)
        return frame_metrics(frame, *args, **kwargs)

    monkeypatch.setattr(column_metrics, "frame_metrics", count_calls)
    run_cells("df = pd.DataFrame({'a': [1]})", "x = df.head()", "y = df.tail()")
    assert len(measured) == 3


def test_memory_of_events(run_cells: RunCells) -> None:
    streams = run_cells("df = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\nout = df.head().tail(1)")
    events = {event["operation_method"]: event for event in streams["marimo_dataframe_lineage"]}
    (created,) = events["DataFrame"]["output_dataframes"]
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert created["memory_usage_mb"] == pytest.approx(frame.memory_usage(deep=True).sum() / 2**20, abs=1e-6)
    assert "memory_usage_estimated" not in created
    # The data of a frame that no variable holds is gone when the cell ends.
    assert events["tail"]["input_dataframes"][0]["memory_usage_estimated"] is True
