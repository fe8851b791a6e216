"""Ten times the events must not cost much more than ten times the CPU.

The smaller log is taken in twice, so that both figures come from a warm session.

python -m bench.measure_growth [EVENTS]     a full round compares 100,000 with 1,000,000
"""

from __future__ import annotations

from bench.costs import Cost
from bench.figures import Report
from bench.logs import log_of
from bench.rounds import asked_for, scratch
from bench.whole_log import Taken, take_whole
from pyspark.sql import SparkSession

from clew.pipeline.session import build_session

_FEW = 100_000
_TIMES = 10


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("growth", asked)
    few = asked.share(_FEW)
    spark = build_session()
    take(few, spark, report)
    less, more = take(few, spark, report), take(_TIMES * few, spark, report)
    report.say(f"derived tables alone {grown(less.derivation, more.derivation):.2f}×")
    # Apart from the whole, whose derived tables have a fixed cost that would hide a growth.
    report.at_most(f"CPU of the intake for {_TIMES} times the events", grown(less.intake, more.intake), 10.5, "×")
    report.at_most(f"CPU of all for {_TIMES} times the events", grown(less.whole, more.whole), 10.5, "×")


def take(count: int, spark: SparkSession, report: Report) -> Taken:
    """A log of that size into tables, index and derived tables."""
    log = log_of(count)
    with scratch() as folder:
        taken = take_whole(log, log.home(folder / "home"), spark)
    report.say(
        f"{log.events:9,} events: intake {taken.intake.cpu:,.1f}, derived tables {taken.derivation.cpu:,.1f} CPU-s"
    )
    return taken


def grown(less: Cost, more: Cost) -> float:
    """How many times the CPU."""
    return more.cpu / less.cpu


if __name__ == "__main__":
    main()
