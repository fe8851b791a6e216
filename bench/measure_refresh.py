"""Benchmark: refresh of the derived tables after new events, in a small and in a ten times larger lake.

Both lakes are refreshed several times, alternating; the median of the CPU counts. A rebuild of the larger lake is the
measure of a refresh that processes all events.

python -m bench.measure_refresh [EVENTS]     a full run compares lakes of 100,000 and 1,000,000 events
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median

from bench.costs import measure_cost
from bench.figures import Report
from bench.generate import generate_events
from bench.logs import SEED, open_log, to_incoming
from bench.rounds import parse_run_size, scratch_folder
from pyspark.sql import SparkSession

from clew.data_dir import DataDir
from clew.eventlog.writer import LogWriter
from clew.pipeline.derive.refresh import refresh_derived_tables
from clew.pipeline.pipeline import Pipeline, open_pipeline
from clew.pipeline.spark.session import build_session

_BASE_EVENTS = 100_000
_FACTOR = 10
_NEW_EVENTS = 1_000
_ROUNDS = 5


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("refresh", run_size)
    base = run_size.scale(_BASE_EVENTS)
    spark, seeds = build_session(), count(SEED + 1)
    with scratch_folder() as folder, ExitStack() as stack:
        small, large = (open_lake(stack, folder / str(events), events, spark) for events in (base, _FACTOR * base))
        rebuild = measure_cost(lambda: refresh_derived_tables(spark, large.lake))
        refresh_derived_tables(spark, small.lake)
        costs: dict[str, list[float]] = {"small": [], "large": []}
        # The first round is a warm-up.
        for round_number in range(_ROUNDS + 1):
            for name, pipeline in (("small", small), ("large", large)):
                cost = refresh_after_new_events(pipeline, next(seeds))
                if round_number:
                    costs[name].append(cost)
    of_small, of_large = median(costs["small"]), median(costs["large"])
    report.log(f"rebuild {rebuild.cpu:.1f}, refresh {of_large:.1f}, in a lake of {base:,} events {of_small:.1f} CPU-s")
    report.check_max(f"CPU of a refresh in a lake {_FACTOR} times as large", of_large / of_small, 2.0, "×")
    report.check_max("CPU of a refresh / of a rebuild", 100 * of_large / rebuild.cpu, 5.0, " %")


def open_lake(stack: ExitStack, folder: Path, events: int, spark: SparkSession) -> Pipeline:
    """Create a lake with a number of events, without derived tables."""
    home = DataDir(folder).create()
    with LogWriter(home.log) as log:
        log.append(to_incoming(open_log(events).bodies()))
    pipeline = stack.enter_context(open_pipeline(home, spark=spark))
    pipeline.ingest_available()
    return pipeline


def refresh_after_new_events(pipeline: Pipeline, seed: int) -> float:
    """Ingest new events and return the CPU-seconds of the refresh."""
    with LogWriter(pipeline.home.log) as log:
        log.append(to_incoming(generate_events(_NEW_EVENTS, seed)))
    pipeline.ingest_available()
    return measure_cost(pipeline.refresh).cpu


if __name__ == "__main__":
    main()
