"""Benchmark: the pipeline against the plan of Spark's guides, with the same events and tables.

Each runs in a separate process and session, one after the other: the textbook plan needs a larger heap and Java's full
compiler. All figures are the second run of their session, in CPU-seconds of all processes. clew runs before and after,
and the mean counts, because the load of shared cores varies.

The target applies to committed tables, so the textbook plan also writes Delta, with Spark's own library.

python -m bench.measure_textbook [EVENTS]
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import fmean

from bench.costs import Cost, measure_cost
from bench.delta_jars import delta_settings
from bench.figures import Report
from bench.logs import Log, open_log
from bench.rounds import BUILD, parse_run_size, scratch_folder
from bench.textbook import build_default_session, write_tables
from bench.whole_log import ingest_into_tables

from clew.pipeline.spark.session import build_session

_TEXTBOOK_MEMORY = "8g"
CLEW, TEXTBOOK = "clew", "textbook"
_TURNS = (CLEW, TEXTBOOK, CLEW)


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("textbook", run_size)
    log = open_log(run_size.events)
    settings = delta_settings(BUILD / "jars")
    with scratch_folder() as folder:
        events = folder / "events.jsonl"
        with events.open("wb") as file:
            file.writelines(body + b"\n" for body in log.bodies())
        plans = {
            CLEW: partial(run_clew, log),
            TEXTBOOK: partial(run_textbook, events, settings=settings),
        }
        runs = [(name, _run_in_process(partial(plans[name], folder / str(turn)))) for turn, name in enumerate(_TURNS)]
    costs = {name: fmean(cost.cpu for plan, cost in runs if plan == name) for name in plans}
    report.log(
        "clew, by turn: " + ", ".join(f"{1e6 * cost.cpu / log.events:.0f} µs" for plan, cost in runs if plan == CLEW)
    )
    for name, cost in runs:
        report.log(f"{name:8} {cost.rate(log.events)}")
    report.check_min(
        "events per CPU-second into committed tables, clew / textbook",
        costs[TEXTBOOK] / costs[CLEW],
        4.0,
        rounds=[costs[TEXTBOOK] / cost.cpu for plan, cost in runs if plan == CLEW],
    )


def run_clew(log: Log, folder: Path) -> Cost:
    """Ingest raw events into committed tables, without the index."""
    home = log.create_home(folder)
    spark = build_session(launcher_dir=folder / "java")
    return [ingest_into_tables(log, home, spark) for _ in range(2)][-1]


def run_textbook(events: Path, folder: Path, settings: Mapping[str, str]) -> Cost:
    """Write the same tables with `from_json`."""
    spark = build_default_session(_TEXTBOOK_MEMORY, settings)
    runs = [partial(write_tables, spark, events, folder / str(number)) for number in range(2)]
    return [measure_cost(run) for run in runs][-1]


def _run_in_process(run: Callable[[], Cost]) -> Cost:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        return executor.submit(run).result()


if __name__ == "__main__":
    main()
