"""Tests of robustness: errors of capture do not affect the user's code, and unusual frames do not break capture."""

from __future__ import annotations

import gc
import os
import resource
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import clew
from clew.capture.backends.base import Call, get_backend
from clew.capture.backends.pandas import selection
from clew.capture.backends.pandas.methods import METHODS
from clew.capture.diagnostics import error_counts
from clew.capture.environments.cell_runner import execution_context
from clew.capture.environments.session import Cell, Session

Run = Callable[..., dict[str, list[dict[str, Any]]]]

UNUSUAL_FRAMES = {
    "duplicate columns": """\
df = pd.DataFrame([[1, 2]], columns=['a', 'a'])
out = df[df.iloc[:, 0] > 0].rename(columns={'a': 'b'})
""",
    "labels of mixed types": """\
df = pd.DataFrame({1: [1], (2, 't'): [3], None: [5], pd.Timestamp('2024'): [7]})
out = df[df[1] > 0]
""",
    "multi-index columns and rows": """\
columns = pd.MultiIndex.from_product([['a'], ['x', 'y']])
rows = pd.MultiIndex.from_tuples([(1, 'p'), (2, 'q')], names=['i', 'j'])
out = pd.DataFrame(np.ones((2, 2)), columns=columns, index=rows)['a'].groupby(level='i').sum().reset_index()
""",
    "objects that raise": """\
df = pd.DataFrame({'o': [RaisingObject(), RaisingObject()], 'l': [[1], [2]]})
out = df[['o']].copy()
""",
    "five thousand columns": """\
df = pd.DataFrame(np.zeros((2, 5000)))
out = df[df[0] >= 0]
out['new'] = 1
""",
    "blocks with NumPy positions": """\
df = pd.DataFrame({'g': ['p', 'q', 'p'], 'n': pd.Series([1, 2, None], dtype='Int64'), 'x': [1., 2., 3.]})
out = df.groupby('g').describe()
""",
    "empty frame": "out = pd.DataFrame().copy()",
    "many dtypes": """\
df = pd.DataFrame({'c': pd.Categorical(['a']), 'd': pd.to_datetime(['2024']), 'p': pd.period_range('2024', periods=1)})
df = df.assign(i=pd.interval_range(0, 1), z=[1j], inf=[np.inf], big=[2**63])
out = df.assign(y=df['d'].dt.year)
""",
}


class RaisingObject:
    def __repr__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("source", UNUSUAL_FRAMES.values(), ids=UNUSUAL_FRAMES.keys())
def test_unusual_frames_are_captured(run_cells: Run, source: str) -> None:
    streams = run_cells(source, namespace={"np": np, "RaisingObject": RaisingObject})
    assert streams["marimo_runtime"][-1]["event_type"] == "cell_execution_end"
    assert streams["marimo_dataframe_lineage"][-1]["output_dataframes"][0]["variable_name"] == "out"
    assert error_counts() == {}


class RaisingLabel:
    def __str__(self) -> str:
        raise RuntimeError


def test_label_that_raises_loses_only_its_records(run_cells: Run) -> None:
    source = "df = pd.DataFrame({'a': [1]})\nodd = df.rename(columns={'a': label})\nout = df.head(1)"
    streams = run_cells(source, namespace={"label": RaisingLabel()})
    methods = [event["operation_method"] for event in streams["marimo_dataframe_lineage"]]
    assert methods == ["DataFrame", "head"]
    assert error_counts() == {"encode rename": 1, "metrics": 1}


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Limit the size of files, to simulate a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_disk_loses_only_the_events_meanwhile(
    run_cells: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        limits = {"fill": lambda: stack.enter_context(file_size_limit(1)), "free": stack.close}
        streams = run_cells(
            "df = pd.DataFrame({'a': [1, 2]})\nfill()",
            "two = df.head(1)",
            "free()",
            "three = two.copy()\nout = three.assign(b=1)",
            namespace=limits,
        )
    events = streams["marimo_dataframe_lineage"]
    assert [event["output_dataframes"][0]["variable_name"] for event in events] == ["three", "out"]
    assert error_counts()["write"] > 0
    assert "events are being lost" in capsys.readouterr().err
    assert not (tmp_path / "out" / ".capture").exists()


def test_rule_that_raises_loses_only_its_record(monkeypatch: pytest.MonkeyPatch, run_cells: Run) -> None:
    def fail(_: Call) -> None:
        raise RuntimeError

    get_backend("pandas").uninstall()
    monkeypatch.setitem(METHODS, "head", METHODS["head"]._replace(frame=fail))
    get_backend("pandas").install()
    streams = run_cells("df = pd.DataFrame({'a': [1, 2]})\nout = df.head(1)\nlast = df.tail(1)")
    assert [event["operation_method"] for event in streams["marimo_dataframe_lineage"]] == ["DataFrame", "tail"]
    assert error_counts() == {"head": 1}
    get_backend("pandas").uninstall()


def test_result_is_unchanged_when_capture_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"a": [1, 2]})

    def fail(_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(selection, "current_version", fail)
    assert list(frame["a"]) == [1, 2]
    assert error_counts() == {"__getitem__": 1}


def test_frame_is_freed() -> None:
    frame = pd.DataFrame({"a": range(10)})
    part = frame[frame["a"] > 1]
    reference = weakref.ref(frame)
    del frame
    assert reference() is None
    assert {edge.source_column for edge in clew.lineage(part).edges()} == {"a"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "df.at[i % 10, 'b'] = float(i)",
        "df['c'] = df['a'] * 2",
        "out = df[df['a'] > 1].groupby('a').sum().reset_index()",
        "df = df.assign(c=df['a'])",
    ],
)
def test_memory_is_bounded_in_a_loop(statement: str) -> None:
    namespace: dict[str, Any] = {"df": pd.DataFrame({"a": range(10), "b": 1.0})}
    loop = compile(f"for i in range(rounds):\n    {statement}", "<loop>", "exec")

    def measure(rounds: int) -> int:
        exec(loop, {**namespace, "rounds": rounds}, namespace)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        # Caches of recent reads, scalars and labels are bounded: about 300 KB.
        measure(300)
        baseline = measure(300)
        assert measure(1200) - baseline < 500_000
    finally:
        tracemalloc.stop()


def test_threads_are_independent() -> None:
    failures: list[Any] = []

    def work(factor: int) -> None:
        for _ in range(30):
            frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
            out = frame[frame["a"] > 1].assign(c=lambda d: d["b"] * factor)
            edges = {(edge.column, edge.source_column) for edge in clew.lineage(out).edges() if edge.column is not None}
            if edges != {("a", "a"), ("b", "b"), ("c", "b")}:
                failures.append(edges)

    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_writes_no_events(run_cells: Run, tmp_path: Path) -> None:
    source = (
        "import os\ndf = pd.DataFrame({'a': [1]})\nchild = os.fork()\nout = df.head()\n"
        "if child == 0:\n    os._exit(0)\nos.waitpid(child, 0)"
    )
    streams = run_cells(source)
    assert [event["operation_method"] for event in streams["marimo_dataframe_lineage"]] == ["DataFrame", "head"]
    assert len(streams["marimo_runtime"]) == 2
    assert list((tmp_path / "out").iterdir())


def test_rerun_cell_discards_previous_reads() -> None:
    def cell(frame: pd.DataFrame) -> pd.DataFrame:
        doubled = [value * 2 for value in frame["a"].tolist()]
        return pd.DataFrame({"b": doubled})

    session = Session("notebook.py")
    first, second = pd.DataFrame({"a": [1.5]}), pd.DataFrame({"a": [2.5]})
    tokens = [clew.version(first, name="first"), clew.version(second, name="second")]
    get_backend("pandas").install()
    try:
        for frame in (first, second):
            with execution_context(session, Cell("c", ""), cell.__code__, {}):
                result = cell(frame)
        sources = {edge.source for edge in clew.lineage(result, until=tokens).edges()}
    finally:
        get_backend("pandas").uninstall()
    assert sources == {"second"}
