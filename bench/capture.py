"""What capture costs: the same work with and without it, interleaved in one process, CPU time, minimum of N."""

from __future__ import annotations

import gc
import inspect
import os
import resource
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clew.capture.backends.pandas.methods import install, uninstall
from clew.capture.environments.cell_runner import execution_context, open_session
from clew.capture.environments.session import Cell


def facts(rows: int) -> pd.DataFrame:
    """Rows with a key, a group, two measures and a text."""
    dice = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "key": dice.integers(0, max(2, rows // 20), rows),
            "group": dice.choice(["a", "b", "c", "d"], rows),
            "x": dice.normal(size=rows),
            "y": dice.normal(size=rows),
            "text": dice.choice(["foo", "bar", "baz"], rows),
        }
    )


def dimension(rows: int) -> pd.DataFrame:
    """One row per key."""
    keys = max(2, rows // 20)
    return pd.DataFrame(
        {"key": np.arange(keys), "weight": np.arange(keys) * 1.0, "name": [f"n{i}" for i in range(keys)]}
    )


def workload(frame: pd.DataFrame, keys: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Some thirty calls that a notebook makes, of which fourteen make or change a frame."""
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


# To put wrappers in, or to take them out, makes the interpreter forget how it ran pandas' code fast, and it looks again
# only after an instruction has gone the slow way some fifty times. A notebook puts them in once.
_ROUNDS_TO_LEARN = 64


def _practice() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A round on few rows: the code is the same."""
    return workload(*_few_rows())


@cache
def _few_rows() -> tuple[pd.DataFrame, pd.DataFrame]:
    return facts(100), dimension(100)


def timed(work: Callable[[], Any], times: int) -> float:
    """CPU seconds of one call, over all threads."""
    gc.collect()
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


class Plain:
    """No capture."""

    def run(self, work: Callable[[], Any], times: int) -> float:
        """Seconds of one round."""
        for _ in range(_ROUNDS_TO_LEARN):
            _practice()
        work()
        return timed(work, times)


class Captured:
    """Capture inside executions of one session; what they write to its log is timed too."""

    def __init__(self, *, a_cell_per_round: bool) -> None:
        self._rounds_per_cell = 1 if a_cell_per_round else None
        self.session = open_session("bench.py")
        self._cell = Cell(id="c", source=inspect.getsource(workload), name="cell")
        self._namespace: dict[str, Any] = {}

    def run(self, work: Callable[[], Any], times: int) -> float:
        """Seconds of one round, its share of what is written included."""
        install()
        try:
            self._cells(_practice, _ROUNDS_TO_LEARN)
            self._cells(work, 1)  # the worker is started once in the life of a notebook, not once per cell
            return timed(lambda: self._cells(work, times), 1) / times
        finally:
            uninstall()

    def _cells(self, work: Callable[[], Any], times: int) -> None:
        rounds = self._rounds_per_cell or times
        for _ in range(times // rounds):
            with execution_context(self.session, self._cell, workload.__code__, self._namespace):
                for _ in range(rounds):
                    self._namespace["totals"], self._namespace["renamed"] = work()


@dataclass(frozen=True)
class Ratios:
    """CPU seconds of a round without capture, how many times that it takes with it, and what the worker adds."""

    plain: float
    one_cell: float
    a_cell_each: float
    worker: float


def ratios(rows: int, repeats: int, times: int) -> Ratios:
    """The workload with and without capture, in one cell of many rounds and in a cell for each round."""
    frame, keys = facts(rows), dimension(rows)
    modes: dict[str, Plain | Captured] = {
        "plain": Plain(),
        "one": Captured(a_cell_per_round=False),
        "each": Captured(a_cell_per_round=True),
    }
    best = dict.fromkeys(modes, float("inf"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(repeats):
        for name, mode in modes.items():
            best[name] = min(best[name], mode.run(partial(workload, frame, keys), times))
    for mode in modes.values():
        if isinstance(mode, Captured):
            mode.session.end()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Nearly all of what the workers did is of the cells that had one round each.
    rounds = repeats * (_ROUNDS_TO_LEARN + 1 + times)
    worker = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / rounds
    plain = best["plain"]
    return Ratios(plain, best["one"] / plain, best["each"] / plain, worker / plain)


def added(prepare: Callable[[], Callable[[], Any]], times: int, repeats: int = 9) -> tuple[float, float]:
    """Seconds of one call, and how many more under capture; what the call works on is made under capture, too."""
    plain, captured = [], []
    session = open_session("bench.py")
    for _ in range(repeats):
        call = prepare()
        call()
        plain.append(timed(call, times))
        install()
        with execution_context(session, Cell("c", "", "cell"), None, {}):
            call = prepare()
            call()
            captured.append(timed(call, times))
        uninstall()
    session.end()
    return min(plain), min(captured) - min(plain)


def masking(columns: int) -> Callable[[], Callable[[], Any]]:
    """`df[mask]` of a frame with so many columns."""

    def prepare() -> Callable[[], Any]:
        wide = pd.DataFrame({f"c{i}": np.arange(100) for i in range(columns)})
        mask = wide["c0"] > 5
        return lambda: wide[mask]

    return prepare


def calls() -> dict[str, tuple[Callable[[], Callable[[], Any]], int]]:
    """Calls that notebooks are made of, and how often each is made to be timed."""
    frame, keys = facts(1_000), dimension(1_000)
    return {
        "df['x']": (lambda: lambda: frame["x"], 5_000),
        "s + s": (lambda: partial(_twice, frame["x"]), 2_000),
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


def _twice(series: Any) -> Any:
    return series + series


def growth_mb(few: int, many: int) -> float:
    """How much more memory is held after many rounds than after a few."""
    frame, keys = facts(1_000), dimension(1_000)
    install()
    session = open_session("bench.py")
    held = []
    for rounds in (few, many):
        with execution_context(session, Cell("c", "", "cell"), None, {}):
            for _ in range(rounds):
                workload(frame, keys)
        gc.collect()
        held.append(_resident_mb())
    uninstall()
    session.end()
    return held[1] - held[0]


def kept_alive() -> int:
    """How many frames live on after they were deleted, of a frame and one made of it."""
    install()
    session = open_session("bench.py")
    with execution_context(session, Cell("c", "", "cell"), None, {}):
        frame = facts(1_000)
        part = frame[frame["x"] > 0]
        gone = [weakref.ref(frame), weakref.ref(part)]
        del frame, part
        alive = sum(one() is not None for one in gone)
    uninstall()
    session.end()
    return alive


def _resident_mb() -> float:
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
