"""What capture costs: the same work with and without it, interleaved in one process, CPU time, minimum of N.

python bench/capture.py [ratios] [operations] [memory]
"""

from __future__ import annotations

import gc
import inspect
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clew.capture.adapters.cells import open_session, running
from clew.capture.frames.catalogue import install, uninstall
from clew.capture.losses import losses
from clew.capture.sessions import Cell

SIZES = {1_000: (25, 30), 100_000: (9, 6), 1_000_000: (9, 2)}
BARS = {1_000: 1.10, 1_000_000: 1.03}


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
        return timed(work, times)


class Captured:
    """Capture inside executions of one session; their streams are written when they end, and that is timed too."""

    def __init__(self, *, a_cell_per_round: bool) -> None:
        self._rounds_per_cell = 1 if a_cell_per_round else None
        self._session = open_session("bench.py")
        self._cell = Cell(id="c", source=inspect.getsource(workload), name="cell")
        self._namespace: dict[str, Any] = {}

    def run(self, work: Callable[[], Any], times: int) -> float:
        """Seconds of one round, its share of what is written included."""
        install()
        try:
            self._cells(work, 1)  # the notebook's text is parsed once in its life, not once per cell
            return timed(lambda: self._cells(work, times), 1) / times
        finally:
            uninstall()

    def _cells(self, work: Callable[[], Any], times: int) -> None:
        rounds = self._rounds_per_cell or times
        for _ in range(times // rounds):
            with running(self._session, self._cell, None, self._namespace):
                for _ in range(rounds):
                    self._namespace["totals"], self._namespace["renamed"] = work()


def ratios() -> None:
    """Captured against plain, by number of rows."""
    modes: dict[str, Plain | Captured] = {
        "plain": Plain(),
        "one cell": Captured(a_cell_per_round=False),
        "a cell each": Captured(a_cell_per_round=True),
    }
    for rows, (repeats, times) in SIZES.items():
        frame, keys = facts(rows), dimension(rows)
        found: dict[str, list[float]] = {name: [] for name in modes}
        for _ in range(repeats):
            for name, mode in modes.items():
                found[name].append(mode.run(partial(workload, frame, keys), times))
        base = min(found["plain"])
        print(f"{rows:>9,} rows: plain {base * 1000:.2f} ms", end="")
        for name in list(modes)[1:]:
            typical = statistics.median(found[name]) / statistics.median(found["plain"])
            print(f" | {name} x{min(found[name]) / base:.3f} (median x{typical:.3f})", end="")
        print(f" | bar x{BARS[rows]}" if rows in BARS else "")


def operations() -> None:
    """What each kind of call costs more."""
    frame, keys = facts(1_000), dimension(1_000)
    wide = pd.DataFrame({f"c{i}": np.arange(100) for i in range(5_000)})
    wide_mask, series, mask = wide["c0"] > 5, frame["x"], frame["x"] > 0
    calls: dict[str, tuple[Callable[[], Any], int]] = {
        "df['x']": (lambda: frame["x"], 5_000),
        "s + s": (lambda: series + series, 2_000),
        "s.abs()": (series.abs, 5_000),
        "s.sum()": (series.sum, 5_000),
        "df[mask]": (lambda: frame[mask], 500),
        "df.head()": (frame.head, 1_000),
        "assign": (lambda: frame.assign(z=series), 500),
        "sort_values": (lambda: frame.sort_values("x"), 300),
        "merge": (lambda: frame.merge(keys, on="key"), 100),
        "groupby.sum": (lambda: frame.groupby("group").agg(total=("x", "sum")), 100),
        "concat": (lambda: pd.concat([keys, keys]), 300),
        "df[mask], 5,000 columns": (lambda: wide[wide_mask], 30),
    }
    for name, (call, times) in calls.items():
        plain, captured = [], []
        for _ in range(9):
            plain.append(timed(call, times))
            install()
            with ExitStack() as stack:
                stack.enter_context(running(open_session("bench.py"), Cell("c", "", "cell"), None, {}))
                call()
                captured.append(timed(call, times))
            uninstall()
        print(f"{name:<26} {min(plain) * 1e6:9.1f} us  +{(min(captured) - min(plain)) * 1e6:6.1f} us")


def memory() -> None:
    """Growth over many rounds."""
    frame, keys = facts(1_000), dimension(1_000)
    install()
    session = open_session("bench.py")
    for rounds in (300, 3_000):
        with running(session, Cell("c", "", "cell"), None, {}):
            for _ in range(rounds):
                workload(frame, keys)
        gc.collect()
        with Path("/proc/self/statm").open(encoding="ascii") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        print(f"{rounds:>5} rounds: {resident:.1f} MB")
    uninstall()


def main() -> None:
    """Run the chosen parts, all by default."""
    parts = {"ratios": ratios, "operations": operations, "memory": memory}
    chosen = sys.argv[1:] or list(parts)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CLEW_OUT"] = folder
        for name in chosen:
            parts[name]()
    print("losses:", losses() or "none")


if __name__ == "__main__":
    main()
