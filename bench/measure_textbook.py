"""The pipeline against the textbook's plan in Spark: the same events into the same tables.

Each has a process and a session of its own, one after the other: the textbook's needs a larger heap and Java's full
compiler, which ours does without. Both are the second run of their session, in CPU-seconds of all processes. Ours
commits to Delta, the textbook's only writes Parquet.

python -m bench.measure_textbook [EVENTS]
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.costs import Cost, measured
from bench.figures import Report
from bench.logs import Log, log_of
from bench.rounds import asked_for, scratch
from bench.textbook import stock_session, write_tables
from bench.whole_log import take_into_tables

from clew.pipeline.session import build_session

_TEXTBOOK_MEMORY = "4g"


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("textbook", asked)
    log = log_of(asked.events)
    with scratch() as folder:
        costs = {}
        for name, way in (("ours", ours), ("textbook", textbook)):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                costs[name] = process.submit(way, log, folder / name).result()
            report.say(f"{name:8} {costs[name].rate(log.events)}")
    report.at_least("events per CPU-second, ours / the textbook's", costs["textbook"].cpu / costs["ours"].cpu, 4.0)


def ours(log: Log, folder: Path) -> Cost:
    """Raw events into committed tables, the index left out."""
    home = log.home(folder)
    spark = build_session(launchers=folder / "java")
    return [take_into_tables(log, home, spark) for _ in range(2)][-1]


def textbook(log: Log, folder: Path) -> Cost:
    """The same by `from_json`."""
    folder.mkdir()
    events = folder / "events.jsonl"
    with events.open("wb") as file:
        file.writelines(body + b"\n" for body in log.bodies())
    spark = stock_session(_TEXTBOOK_MEMORY)
    return [measured(lambda: write_tables(spark, events, folder / "tables")) for _ in range(2)][-1]


if __name__ == "__main__":
    main()
