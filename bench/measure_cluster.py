"""Benchmark: a standalone cluster of two workers with one core each against `local[2]`, on one machine.

Both ingest the same log into tables and index, alternating, each in its own driver process. The workers share only the
folder of the data directory. CPU is that of driver, JVMs and workers.

python -m bench.measure_cluster [EVENTS]
"""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter
from unittest.mock import patch

from bench.costs import Cost, measure_cost
from bench.figures import Report
from bench.logs import open_log
from bench.rounds import parse_run_size, scratch_folder
from bench.whole_log import check_event_count, count_events, remove_output
from tests.support.spark_cluster import start_cluster

from clew.data_dir import DataDir
from clew.lake.lake import Lake
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.spark.session import build_session

_EVENTS = 50_000
_ROUNDS = 2
_EXECUTOR_MEMORY = "600m"


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("cluster", run_size)
    log = open_log(run_size.scale(_EVENTS))
    with scratch_folder() as folder, start_cluster(folder / "nodes") as cluster:
        home = log.create_home(cluster.shared / "home")
        drivers = {master: _start_driver() for master in ("local[2]", cluster.master)}
        costs: dict[str, list[Cost]] = {master: [] for master in drivers}
        checks = []
        # The first round warms up.
        for number in range(_ROUNDS + 1):
            for master, driver in drivers.items():
                share: list[float] = []
                cost = measure_cost(_ingestion(driver, master, home, log.events, share))
                report.log(f"{master:24} {cost.rate(log.events)}")
                if number:
                    costs[master].append(cost)
                    checks += share
        for driver in drivers.values():
            driver.shutdown()
    local, on_cluster = (statistics.median(cost.wall for cost in costs[master]) for master in drivers)
    local_cpu, cluster_cpu = (statistics.median(cost.cpu for cost in costs[master]) for master in drivers)
    ratios = [one.wall / other.wall for one, other in zip(*costs.values(), strict=True)]
    report.check_min(
        "events per second of two workers / of local[2]",
        local / on_cluster,
        0.9,
        rounds=ratios,
        cpu_ratio=local_cpu / cluster_cpu,
    )
    report.check_max("time in which commits check their files", 100 * statistics.median(checks), 5, " %")


def _start_driver() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def _ingestion(
    driver: ProcessPoolExecutor, master: str, home: DataDir, events: int, share: list[float]
) -> Callable[[], None]:
    return lambda: share.append(driver.submit(ingest, master, home.root, events).result())


def ingest(master: str, root: Path, events: int) -> float:
    """Ingest the log in a driver process; return the share of the time in which files were checked."""
    home = DataDir(root)
    conf = {} if master.startswith("local") else {"spark.executor.memory": _EXECUTOR_MEMORY}
    spark = build_session(master=master, conf=conf)
    remove_output(home)
    seconds, check_files = 0.0, Lake.check_files

    def timed_check(lake: Lake, files: list[object]) -> None:
        nonlocal seconds
        started = perf_counter()
        check_files(lake, files)  # type: ignore[arg-type]
        seconds += perf_counter() - started

    started = perf_counter()
    with open_pipeline(home, spark=spark) as pipeline, patch.object(Lake, "check_files", timed_check):
        pipeline.ingest_available()
        check_event_count("lake", count_events(pipeline.lake), events)
    return seconds / (perf_counter() - started)


if __name__ == "__main__":
    main()
