"""Whatever happens to capture, the user's work goes on; whatever the user's frames are like, capture goes on."""

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
from clew.capture.backends.pandas import selection
from clew.capture.backends.pandas.call import Call
from clew.capture.backends.pandas.methods import FRAME_RULES, install, uninstall
from clew.capture.diagnostics import error_counts
from clew.capture.environments.cell_runner import execution_context
from clew.capture.environments.session import Cell, Session

Run = Callable[..., dict[str, list[dict[str, Any]]]]

STRANGE = {
    "duplicate columns": """\
df = pd.DataFrame([[1, 2]], columns=['a', 'a'])
out = df[df.iloc[:, 0] > 0].rename(columns={'a': 'b'})
""",
    "labels of all kinds": """\
df = pd.DataFrame({1: [1], (2, 't'): [3], None: [5], pd.Timestamp('2024'): [7]})
out = df[df[1] > 0]
""",
    "levels of columns and rows": """\
columns = pd.MultiIndex.from_product([['a'], ['x', 'y']])
rows = pd.MultiIndex.from_tuples([(1, 'p'), (2, 'q')], names=['i', 'j'])
out = pd.DataFrame(np.ones((2, 2)), columns=columns, index=rows)['a'].groupby(level='i').sum().reset_index()
""",
    "objects that refuse everything": """\
df = pd.DataFrame({'o': [Refusing(), Refusing()], 'l': [[1], [2]]})
out = df[['o']].copy()
""",
    "five thousand columns": """\
df = pd.DataFrame(np.zeros((2, 5000)))
out = df[df[0] >= 0]
out['new'] = 1
""",
    "nothing at all": "out = pd.DataFrame().copy()",
    "types of all kinds": """\
df = pd.DataFrame({'c': pd.Categorical(['a']), 'd': pd.to_datetime(['2024']), 'p': pd.period_range('2024', periods=1)})
df = df.assign(i=pd.interval_range(0, 1), z=[1j], inf=[np.inf], big=[2**63])
out = df.assign(y=df['d'].dt.year)
""",
}


class Refusing:
    def __repr__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("source", STRANGE.values(), ids=STRANGE.keys())
def test_strange_frames_lose_nothing(run_cells: Run, source: str) -> None:
    streams = run_cells(source, namespace={"np": np, "Refusing": Refusing})
    assert streams["marimo_runtime"][-1]["event_type"] == "cell_execution_end"
    assert streams["marimo_dataframe_lineage"][-1]["output_dataframes"][0]["variable_name"] == "out"
    assert error_counts() == {}


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError


def test_a_label_that_cannot_be_told_costs_only_its_records(run_cells: Run) -> None:
    source = "df = pd.DataFrame({'a': [1]})\nodd = df.rename(columns={'a': label})\nout = df.head(1)"
    streams = run_cells(source, namespace={"label": Unspeakable()})
    told = [event["operation_method"] for event in streams["marimo_dataframe_lineage"]]
    assert told == ["DataFrame", "head"]
    assert error_counts() == {"encode rename": 1, "metrics": 1}


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """Simulate a disk on which no file can grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_costs_what_was_done_meanwhile(
    run_cells: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as full:
        limits = {"fill": lambda: full.enter_context(disk_of(1)), "free": full.close}
        streams = run_cells(
            "df = pd.DataFrame({'a': [1, 2]})\nfill()",
            "two = df.head(1)",
            "free()",
            "three = two.copy()\nout = three.assign(b=1)",
            namespace=limits,
        )
    told = streams["marimo_dataframe_lineage"]
    assert [event["output_dataframes"][0]["variable_name"] for event in told] == ["three", "out"]
    assert error_counts()["write"] > 0
    assert "events are being lost" in capsys.readouterr().err
    assert not (tmp_path / "out" / ".capture").exists()


def test_a_rule_that_raises_costs_only_its_record(monkeypatch: pytest.MonkeyPatch, run_cells: Run) -> None:
    def broken(_: Call) -> None:
        raise RuntimeError

    uninstall()
    monkeypatch.setitem(FRAME_RULES, "head", broken)
    install()
    streams = run_cells("df = pd.DataFrame({'a': [1, 2]})\nout = df.head(1)\nlast = df.tail(1)")
    assert [event["operation_method"] for event in streams["marimo_dataframe_lineage"]] == ["DataFrame", "tail"]
    assert error_counts() == {"head": 1}
    uninstall()


def test_the_result_is_the_same_when_capture_fails_before_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"a": [1, 2]})

    def broken(_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(selection, "current_version", broken)
    assert list(frame["a"]) == [1, 2]
    assert error_counts() == {"__getitem__": 1}


def test_data_is_freed_with_its_frame() -> None:
    frame = pd.DataFrame({"a": range(10)})
    part = frame[frame["a"] > 1]
    gone = weakref.ref(frame)
    del frame
    assert gone() is None
    assert {edge.source_column for edge in clew.lineage(part).edges()} == {"a"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "work",
    [
        "df.at[i % 10, 'b'] = float(i)",
        "df['c'] = df['a'] * 2",
        "out = df[df['a'] > 1].groupby('a').sum().reset_index()",
        "df = df.assign(c=df['a'])",
    ],
)
def test_memory_does_not_grow_with_the_rounds_of_a_loop(work: str) -> None:
    namespace: dict[str, Any] = {"df": pd.DataFrame({"a": range(10), "b": 1.0})}
    loop = compile(f"for i in range(rounds):\n    {work}", "<loop>", "exec")

    def held(rounds: int) -> int:
        exec(loop, {**namespace, "rounds": rounds}, namespace)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        # What was read last, and the scalars and labels seen last, are kept in bounded numbers: some 300 KB.
        held(300)
        few = held(300)
        assert held(1200) - few < 500_000
    finally:
        tracemalloc.stop()


def test_threads_do_not_see_each_other() -> None:
    wrong: list[Any] = []

    def work(factor: int) -> None:
        for _ in range(30):
            frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
            out = frame[frame["a"] > 1].assign(c=lambda d: d["b"] * factor)
            found = {(edge.column, edge.source_column) for edge in clew.lineage(out).edges() if edge.column is not None}
            if found != {("a", "a"), ("b", "b"), ("c", "b")}:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_writes_nothing(run_cells: Run, tmp_path: Path) -> None:
    source = (
        "import os\ndf = pd.DataFrame({'a': [1]})\nchild = os.fork()\nout = df.head()\n"
        "if child == 0:\n    os._exit(0)\nos.waitpid(child, 0)"
    )
    streams = run_cells(source)
    assert [event["operation_method"] for event in streams["marimo_dataframe_lineage"]] == ["DataFrame", "head"]
    assert len(streams["marimo_runtime"]) == 2
    assert list((tmp_path / "out").iterdir())


def test_a_cell_that_runs_again_forgets_what_it_read_before() -> None:
    def cell(frame: pd.DataFrame) -> pd.DataFrame:
        doubled = [value * 2 for value in frame["a"].tolist()]
        return pd.DataFrame({"b": doubled})

    session = Session("notebook.py")
    first, second = pd.DataFrame({"a": [1.5]}), pd.DataFrame({"a": [2.5]})
    tokens = [clew.version(first, name="first"), clew.version(second, name="second")]
    install()
    try:
        for frame in (first, second):
            with execution_context(session, Cell("c", ""), cell.__code__, {}):
                made = cell(frame)
        sources = {edge.source for edge in clew.lineage(made, until=tokens).edges()}
    finally:
        uninstall()
    assert sources == {"second"}
