"""Cost of capture: the same workload with and without it, interleaved in one process, CPU time, minimum of N."""

from __future__ import annotations

import gc
import inspect
import os
import resource
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl

from clew.capture.backends.base import Backend
from clew.capture.backends.duckdb.backend import BACKEND as DUCKDB_BACKEND
from clew.capture.backends.pandas.backend import BACKEND
from clew.capture.backends.polars.backend import BACKEND as POLARS_BACKEND
from clew.capture.environments.cell_runner import execution_context, open_session
from clew.capture.environments.session import Cell


def make_facts(rows: int) -> pd.DataFrame:
    """Make rows with a key, a group, two measures and a text."""
    random = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "key": random.integers(0, max(2, rows // 20), rows),
            "group": random.choice(["a", "b", "c", "d"], rows),
            "x": random.normal(size=rows),
            "y": random.normal(size=rows),
            "text": random.choice(["foo", "bar", "baz"], rows),
        }
    )


def make_dimension(rows: int) -> pd.DataFrame:
    """Make one row per key."""
    keys = max(2, rows // 20)
    return pd.DataFrame(
        {"key": np.arange(keys), "weight": np.arange(keys) * 1.0, "name": [f"n{i}" for i in range(keys)]}
    )


def workload(frame: pd.DataFrame, keys: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run about thirty calls of a notebook; fourteen create or change a frame."""
    t = frame[frame["x"] > 0]
    t = t.assign(z=t["x"] * 2 + t["y"])
    t["q"] = t["z"] / t["y"].abs()
    m = t.merge(keys, on="key", how="left")
    m["v"] = m["weight"].fillna(0) * m["q"]
    totals = m.groupby("group").agg(total=("v", "sum"), n=("id", "count")).reset_index()
    first = m[["id", "group", "v"]].sort_values("v").head(10)
    m["upper"] = m["text"].str.upper()
    twice = pd.concat([first, first])
    renamed = twice.rename(columns={"v": "value"}).drop(columns=["group"])
    return totals, renamed


def make_polars_frames(rows: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make the same frames for polars."""
    return pl.from_pandas(make_facts(rows)), pl.from_pandas(make_dimension(rows))


def run_polars(frame: pl.DataFrame, keys: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Run the same steps with polars."""
    t = frame.filter(pl.col("x") > 0)
    t = t.with_columns(z=pl.col("x") * 2 + pl.col("y"))
    t = t.with_columns(q=pl.col("z") / pl.col("y").abs())
    m = t.join(keys, on="key", how="left")
    m = m.with_columns(v=pl.col("weight").fill_null(0) * pl.col("q"))
    totals = m.group_by("group").agg(pl.col("v").sum().alias("total"), pl.col("id").count().alias("n"))
    first = m.select("id", "group", "v").sort("v").head(10)
    m = m.with_columns(upper=pl.col("text").str.to_uppercase())
    twice = pl.concat([first, first])
    renamed = twice.rename({"v": "value"}).drop("group")
    return totals, renamed


_DUCKDB_STEPS = """with t as (select *, x * 2 + y as z from frame where x > 0),
m as (select t.*, weight, coalesce(weight, 0) * z / abs(y) as v, upper(text) as upper
    from t left join keys using (key)),
first as (select id, "group", v from m order by v limit 10)
"""


# DuckDB finds the frames by their names.
def run_duckdb(frame: pd.DataFrame, keys: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:  # noqa: ARG001
    """Run the same steps with DuckDB."""
    query = 'select "group", sum(v) as total, count(id) as n from m group by all'
    totals = duckdb.execute(f"{_DUCKDB_STEPS} {query}").df()
    query = "from first select id, v as value union all from first select id, v"
    renamed = duckdb.execute(f"{_DUCKDB_STEPS} {query}").df()
    return totals, renamed


@dataclass(frozen=True)
class Workload:
    """Steps of a notebook in one library, and the frames that they read."""

    backend: Backend
    run: Callable[[Any, Any], tuple[Any, Any]]
    make_frames: Callable[[int], tuple[Any, Any]]
    small_frames: tuple[Any, Any]

    def warm_up(self) -> tuple[Any, Any]:
        """Run the steps on few rows."""
        return self.run(*self.small_frames)


def make_pandas_frames(rows: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make both frames."""
    return make_facts(rows), make_dimension(rows)


def list_workloads() -> dict[str, Workload]:
    """List the workload of each library."""
    definitions: dict[str, tuple[Backend, Callable[[Any, Any], tuple[Any, Any]], Callable[[int], tuple[Any, Any]]]] = {
        "pandas": (BACKEND, workload, make_pandas_frames),
        "polars": (POLARS_BACKEND, run_polars, make_polars_frames),
        "DuckDB": (DUCKDB_BACKEND, run_duckdb, make_pandas_frames),
    }
    return {
        name: Workload(backend, run, make_frames, make_frames(100))
        for name, (backend, run, make_frames) in definitions.items()
    }


# Installing or removing patches invalidates the specialized bytecode of pandas. The interpreter specializes it again
# only after about fifty executions. A notebook installs patches once.
WARM_UP_ROUNDS = 64


def measure_cpu(function: Callable[[], Any], times: int) -> float:
    """Measure the CPU seconds of one call, over all threads."""
    gc.collect()
    start = time.process_time()
    for _ in range(times):
        function()
    return (time.process_time() - start) / times


class PlainMode:
    """Workload without capture."""

    def __init__(self, steps: Workload, warm_up: int) -> None:
        self._steps, self._warm_up = steps, warm_up

    def run(self, function: Callable[[], Any], times: int) -> float:
        """Measure the seconds of one round."""
        for _ in range(self._warm_up):
            self._steps.warm_up()
        function()
        return measure_cpu(function, times)


class CaptureMode:
    """Workload with capture in a session, including the writes to its log."""

    def __init__(self, steps: Workload, warm_up: int, *, is_cell_per_round: bool) -> None:
        self._steps, self._warm_up = steps, warm_up
        self._rounds_per_cell = 1 if is_cell_per_round else None
        self.session = open_session("bench.py")
        self._cell = Cell(id="c", source=inspect.getsource(steps.run), name="cell")
        self._namespace: dict[str, Any] = {}

    def run(self, function: Callable[[], Any], times: int) -> float:
        """Measure the seconds of one round, including its share of the writes."""
        self._steps.backend.install()
        try:
            self._run_cells(self._steps.warm_up, self._warm_up)
            self._run_cells(function, 1)  # a notebook starts the worker once, not per cell
            return measure_cpu(lambda: self._run_cells(function, times), 1) / times
        finally:
            self._steps.backend.uninstall()

    def _run_cells(self, function: Callable[[], Any], times: int) -> None:
        rounds = self._rounds_per_cell or times
        for _ in range(times // rounds):
            with execution_context(self.session, self._cell, self._steps.run.__code__, self._namespace):
                for _ in range(rounds):
                    self._namespace["totals"], self._namespace["renamed"] = function()


@dataclass(frozen=True)
class CaptureCost:
    """CPU seconds of a round without capture, and the ratios with capture and of the worker process."""

    plain: float
    one_cell: float
    cell_per_round: float
    worker: float


def measure_ratios(steps: Workload, rows: int, repeats: int, times: int, warm_up: int = WARM_UP_ROUNDS) -> CaptureCost:
    """Measure a workload without capture, with many rounds in one cell, and with one cell per round."""
    frames = steps.make_frames(rows)
    modes: dict[str, PlainMode | CaptureMode] = {
        "plain": PlainMode(steps, warm_up),
        "one_cell": CaptureMode(steps, warm_up, is_cell_per_round=False),
        "cell_per_round": CaptureMode(steps, warm_up, is_cell_per_round=True),
    }
    best = dict.fromkeys(modes, float("inf"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(repeats):
        for name, mode in modes.items():
            best[name] = min(best[name], mode.run(partial(steps.run, *frames), times))
    for mode in modes.values():
        if isinstance(mode, CaptureMode):
            mode.session.end()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Nearly all work of the workers comes from the mode with one cell per round.
    rounds = repeats * (warm_up + 1 + times)
    worker = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / rounds
    plain = best["plain"]
    return CaptureCost(plain, best["one_cell"] / plain, best["cell_per_round"] / plain, worker / plain)


def measure_overhead(prepare: Callable[[], Callable[[], Any]], times: int, repeats: int = 9) -> tuple[float, float]:
    """Measure the seconds of a call, and the additional seconds with capture, also of its arguments."""
    plain, captured = [], []
    session = open_session("bench.py")
    for _ in range(repeats):
        call = prepare()
        call()
        plain.append(measure_cpu(call, times))
        BACKEND.install()
        with execution_context(session, Cell("c", "", "cell"), None, {}):
            call = prepare()
            call()
            captured.append(measure_cpu(call, times))
        BACKEND.uninstall()
    session.end()
    return min(plain), min(captured) - min(plain)


def prepare_mask(columns: int) -> Callable[[], Callable[[], Any]]:
    """Return a function that prepares `df[mask]` of a frame with a number of columns."""

    def prepare() -> Callable[[], Any]:
        wide = pd.DataFrame({f"c{i}": np.arange(100) for i in range(columns)})
        mask = wide["c0"] > 5
        return lambda: wide[mask]

    return prepare


def list_calls() -> dict[str, tuple[Callable[[], Callable[[], Any]], int]]:
    """List typical calls of notebooks, and the repetitions of each."""
    frame, keys = make_facts(1_000), make_dimension(1_000)
    return {
        "df['x']": (lambda: lambda: frame["x"], 5_000),
        "s + s": (lambda: partial(_add_to_itself, frame["x"]), 2_000),
        "s.abs()": (lambda: frame["x"].abs, 5_000),
        "s.sum()": (lambda: frame["x"].sum, 5_000),
        "df[mask]": (lambda: partial(frame.__getitem__, frame["x"] > 0), 500),
        "df.head()": (lambda: frame.head, 1_000),
        "assign": (lambda: partial(frame.assign, z=frame["x"]), 500),
        "sort_values": (lambda: partial(frame.sort_values, "x"), 300),
        "merge": (lambda: partial(frame.merge, keys, on="key"), 100),
        "groupby.agg": (lambda: lambda: frame.groupby("group").agg(total=("x", "sum")), 100),
        "concat": (lambda: lambda: pd.concat([keys, keys]), 300),
    }


def _add_to_itself(series: Any) -> Any:
    return series + series


# Loops over elements, as in notebooks of beginners.
ELEMENT_LOOPS = {
    "df.at[i, c] = v": "for i in range(len(df)):\n    df.at[i, 'x'] = i * 2.0",
    "df.loc[i, c] = v": "for i in range(len(df)):\n    df.loc[i, 'x'] = i * 2.0",
    "df.iterrows()": "total = 0\nfor i, row in df.iterrows():\n    total += row['x'] * row['y']",
}


def measure_element_loop(source: str, rows: int, repeats: int) -> float:
    """Measure the CPU ratio of a loop over the rows of a frame, with and without capture."""
    code = compile(source, "<loop>", "exec")
    session = open_session("bench.py")
    plain, captured = [], []

    def run() -> None:
        exec(code, {"df": make_facts(rows)})  # noqa: S102 - the loops above

    for _ in range(repeats):
        plain.append(measure_cpu(run, 1))
        BACKEND.install()
        with execution_context(session, Cell("c", source, "cell"), code, {}):
            captured.append(measure_cpu(run, 1))
        BACKEND.uninstall()
    session.end()
    return min(captured) / min(plain)


def measure_growth_mb(few: int, many: int) -> tuple[float, float]:
    """Measure the growth of memory from a few rounds to many: without and with capture."""
    frame, keys = make_pandas_frames(1_000)
    plain = []
    for rounds in (few, many - few):
        for _ in range(rounds):
            workload(frame, keys)
        gc.collect()
        plain.append(_resident_mb())
    BACKEND.install()
    session = open_session("bench.py")
    sizes = []
    for rounds in (few, many):
        with execution_context(session, Cell("c", "", "cell"), None, {}):
            for _ in range(rounds):
                workload(frame, keys)
        gc.collect()
        sizes.append(_resident_mb())
    BACKEND.uninstall()
    session.end()
    return plain[1] - plain[0], sizes[1] - sizes[0]


def count_leaked_frames() -> int:
    """Count the frames that are alive after `del`, of a frame and a derived one."""
    BACKEND.install()
    session = open_session("bench.py")
    with execution_context(session, Cell("c", "", "cell"), None, {}):
        frame = make_facts(1_000)
        derived = frame[frame["x"] > 0]
        references = [weakref.ref(frame), weakref.ref(derived)]
        del frame, derived
        alive = sum(reference() is not None for reference in references)
    BACKEND.uninstall()
    session.end()
    return alive


def _resident_mb() -> float:
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
