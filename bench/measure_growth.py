"""Ten times the events must not cost much more than ten times the CPU.

The smaller log is taken in once before all, so that the figures come from a warm session, and then before and after the
larger one: what neighbours do to a core changes by the minute.

python -m bench.measure_growth [EVENTS]     a full round compares 100,000 with 1,000,000
"""

from __future__ import annotations

from collections.abc import Callable

from bench.costs import Cost
from bench.figures import Report
from bench.logs import log_of
from bench.rounds import asked_for, scratch
from bench.whole_log import Taken, take_whole
from pyspark.sql import SparkSession

from clew.pipeline.spark.session import build_session

_FEW = 100_000
_TIMES = 10


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("growth", asked)
    few = asked.share(_FEW)
    spark = build_session()
    take(few, spark, report)
    before, more, after = (take(events, spark, report) for events in (few, _TIMES * few, few))

    def grown(part: Callable[[Taken], Cost]) -> float:
        return 2 * part(more).cpu / (part(before) + part(after)).cpu

    report.say(f"derived tables alone {grown(lambda taken: taken.derivation):.2f}×")
    # Apart from the whole, whose derived tables have a fixed cost that would hide a growth.
    report.at_most(f"CPU of the intake for {_TIMES} times the events", grown(lambda taken: taken.intake), 10.5, "×")
    report.at_most(f"CPU of all for {_TIMES} times the events", grown(lambda taken: taken.whole), 10.5, "×")


def take(count: int, spark: SparkSession, report: Report) -> Taken:
    """A log of that size into tables, index and derived tables."""
    log = log_of(count)
    with scratch() as folder:
        taken = take_whole(log, log.home(folder / "home"), spark)
    report.say(
        f"{log.events:9,} events: intake {taken.intake.cpu:,.1f}, derived tables {taken.derivation.cpu:,.1f} CPU-s"
    )
    return taken


if __name__ == "__main__":
    main()
