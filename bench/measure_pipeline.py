"""Benchmark: the pipeline against two plain Python processes that write the same files from the same events.

Figures are CPU-seconds of all processes including the JVM, because wall time varies on a shared machine. Events of
several sizes are compared with parsing them by the standard library.

python -m bench.measure_pipeline [EVENTS]
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
from bench.costs import Cost
from bench.figures import Baseline, Report
from bench.generate import big_event, generate_events, make_jobs, make_tables
from bench.logs import SEED, Log, open_log, write_log
from bench.plain import measure_parsing_cpu
from bench.rounds import parse_run_size, scratch_folder
from bench.tables_only import measure_two_processes
from bench.whole_log import ingest_into_tables, ingest_log, rebuild_index
from pyspark.sql import SparkSession

from clew.data_dir import DataDir
from clew.pipeline.spark.session import build_session

_SIZED_BYTES = 60_000_000
_SMALL, _USUAL = "1 KB", "6.5 KB"
_LARGE = {"100 KB": 100_000, "1 MB": 1_000_000}


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("pipeline", run_size)
    log = open_log(run_size.events)
    report.log(f"{log.events:,} events, {log.end / log.events:,.0f} bytes each")
    with scratch_folder() as folder:
        baseline = measure_two_processes(log, folder / "plain")
        report.log(f"two plain processes   {baseline.rate(log.events)}")
        spark = build_session(launcher_dir=folder / "java")
        measure_pipeline(log, log.create_home(folder / "home"), baseline, spark, report)
        for name, bodies in make_sized_events(run_size.scale(_SIZED_BYTES, minimum=4_000_000)).items():
            measure_size(name, bodies, folder / name, spark, report)


def measure_pipeline(log: Log, home: DataDir, baseline: Cost, spark: SparkSession, report: Report) -> None:
    """Measure the pipeline, each figure from the second run of one session."""
    tables = [ingest_into_tables(log, home, spark) for _ in range(2)][-1]
    report.log(f"tables committed      {tables.rate(log.events)}")
    report.check_min("tables: CPU of two plain processes / of the pipeline", baseline.cpu / tables.cpu, 0.65)
    full = [ingest_log(log, home, spark) for _ in range(2)][-1]
    report.log(f"with the index        {full.ingestion.rate(log.events)}, including start and end")
    report.check_min(
        "tables and index, streaming",
        full.per_second,
        6_000,
        " events/s",
        baseline=Baseline("two plain Python processes, files only", log.events / baseline.wall),
        cpu_ratio=baseline.cpu / full.ingestion.cpu,
    )
    rebuilt = [rebuild_index(home, spark) for _ in range(2)][-1]
    report.log(f"index rebuilt         {rebuilt.rate(log.events)}")
    report.check_min(
        "index rebuilt from the lake",
        log.events / rebuilt.wall,
        10_000,
        " events/s",
        baseline=Baseline("ingestion from the log", log.events / full.ingestion.wall),
        cpu_ratio=full.ingestion.cpu / rebuilt.cpu,
    )


def make_sized_events(total_bytes: int) -> dict[str, list[bytes]]:
    """Make different events of several sizes, each size with the same number of bytes."""
    random = Random(SEED)
    jobs = make_jobs(random, make_tables(random))
    usual = list(dict.fromkeys(generate_events(total_bytes // 1_000, SEED)))
    events = {_SMALL: list(dict.fromkeys(map(strip_facets, usual))), _USUAL: usual[: total_bytes // 6_500]}
    for name, size in _LARGE.items():
        events[name] = [big_event(random, random.choice(jobs), size) for _ in range(total_bytes // size)]
    return events


def strip_facets(body: bytes) -> bytes:
    """Return the event without the facets of its job and its datasets."""
    event = msgspec.json.decode(body)
    for entity in (event["job"], *event["inputs"], *event["outputs"]):
        entity.pop("facets")
    return msgspec.json.encode(event)


def measure_size(name: str, bodies: list[bytes], folder: Path, spark: SparkSession, report: Report) -> None:
    """Compare the ingestion of events of a size with parsing them."""
    log = write_log(folder / "log", iter(bodies))
    cost = ingest_log(log, log.create_home(folder / "home"), spark).ingestion
    size = log.end / log.events
    report.log(
        f"{log.events:,} events of {size:,.0f} bytes: {cost.rate(log.events)}, {log.end / cost.wall / 1e6:.1f} MB/s"
    )
    report.compare(
        f"events of {name}: CPU of the pipeline / of json.loads", cost.cpu / measure_parsing_cpu(bodies), "×"
    )


if __name__ == "__main__":
    main()
