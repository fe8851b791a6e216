"""Benchmark: CPU of ingesting ten times as many events, relative to ten times the CPU.

The smaller log is ingested once as a warm-up, and then before and after the larger one, because the load of shared
cores varies.

python -m bench.measure_growth [EVENTS]     a full run compares 100,000 with 1,000,000
"""

from __future__ import annotations

from collections.abc import Callable

from bench.costs import Cost
from bench.figures import Report
from bench.logs import open_log
from bench.rounds import parse_run_size, scratch_folder
from bench.whole_log import IngestCost, ingest_log
from pyspark.sql import SparkSession

from clew.pipeline.spark.session import build_session

_BASE_EVENTS = 100_000
_FACTOR = 10


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("growth", run_size)
    base = run_size.scale(_BASE_EVENTS)
    spark = build_session()
    ingest(base, spark, report)
    before, large, after = (ingest(events, spark, report) for events in (base, _FACTOR * base, base))

    def growth(select: Callable[[IngestCost], Cost]) -> float:
        return 2 * select(large).cpu / (select(before) + select(after)).cpu

    report.log(f"derived tables alone {growth(lambda cost: cost.derivation):.2f}×")
    # Separate from the total: the fixed cost of derived tables would hide growth.
    report.check_max(
        f"CPU of the ingestion for {_FACTOR} times the events", growth(lambda cost: cost.ingestion), 10.5, "×"
    )
    report.check_max(
        f"CPU of ingestion and derived tables for {_FACTOR} times the events",
        growth(lambda cost: cost.total),
        10.5,
        "×",
    )


def ingest(count: int, spark: SparkSession, report: Report) -> IngestCost:
    """Ingest a log of a size into tables, index and derived tables."""
    log = open_log(count)
    with scratch_folder() as folder:
        cost = ingest_log(log, log.create_home(folder / "home"), spark)
    report.log(
        f"{log.events:9,} events: ingestion {cost.ingestion.cpu:,.1f}, derived tables {cost.derivation.cpu:,.1f} CPU-s"
    )
    return cost


if __name__ == "__main__":
    main()
