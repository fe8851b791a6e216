"""The pipeline against the textbook's plan in Spark: the same events into the same tables.

Each has a process and a session of its own, one after the other: the textbook's needs a larger heap and Java's full
compiler, which ours does without. All are the second run of their session, in CPU-seconds of all processes. Ours runs
before, between and after the others, and the middle figure counts: what neighbours do to a core changes by the minute.

The bar holds for tables that are committed, so the textbook's plan writes Delta, too, with Spark's own library. What it
takes to write mere Parquet files, which a crash leaves half there, is told beside it.

python -m bench.measure_textbook [EVENTS]
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from bench.costs import Cost, measured
from bench.delta_jars import delta_settings
from bench.figures import Report
from bench.logs import Log, log_of
from bench.rounds import BUILD, asked_for, scratch
from bench.textbook import stock_session, write_tables
from bench.whole_log import take_into_tables

from clew.pipeline.spark.session import build_session

_TEXTBOOK_MEMORY = "8g"
OURS, DELTA, PARQUET = "ours", "textbook, Delta", "textbook, Parquet"
_TURNS = (OURS, DELTA, OURS, PARQUET, OURS)


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("textbook", asked)
    log = log_of(asked.events)
    settings = delta_settings(BUILD / "jars")
    with scratch() as folder:
        events = folder / "events.jsonl"
        with events.open("wb") as file:
            file.writelines(body + b"\n" for body in log.bodies())
        ways = {
            OURS: partial(ours, log),
            DELTA: partial(textbook, events, kind="delta", settings=settings),
            PARQUET: partial(textbook, events, kind="parquet", settings={}),
        }
        runs = [(name, _in_a_process(partial(ways[name], folder / str(turn)))) for turn, name in enumerate(_TURNS)]
    costs = {name: _middle([cost for ran, cost in runs if ran == name]) for name in ways}
    report.say(
        "ours, by turns: " + ", ".join(f"{1e6 * cost.cpu / log.events:.0f} µs" for ran, cost in runs if ran == OURS)
    )
    for name, cost in costs.items():
        report.say(f"{name:18} {cost.rate(log.events)}")
    report.say(f"the textbook's files that are not committed / ours: {costs[PARQUET].cpu / costs[OURS].cpu:.2f}")
    report.at_least(
        "events per CPU-second into committed tables, ours / the textbook's",
        costs[DELTA].cpu / costs[OURS].cpu,
        4.0,
    )


def ours(log: Log, folder: Path) -> Cost:
    """Raw events into committed tables, the index left out."""
    home = log.home(folder)
    spark = build_session(launcher_dir=folder / "java")
    return [take_into_tables(log, home, spark) for _ in range(2)][-1]


def textbook(events: Path, folder: Path, kind: str, settings: Mapping[str, str]) -> Cost:
    """The same by `from_json`."""
    spark = stock_session(_TEXTBOOK_MEMORY, settings)
    runs = [partial(write_tables, spark, events, folder / str(number), kind) for number in range(2)]
    return [measured(run) for run in runs][-1]


def _middle(costs: Sequence[Cost]) -> Cost:
    return sorted(costs, key=lambda cost: cost.cpu)[len(costs) // 2]


def _in_a_process(way: Callable[[], Cost]) -> Cost:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(way).result()


if __name__ == "__main__":
    main()
