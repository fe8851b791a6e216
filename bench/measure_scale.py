"""Benchmark: bytes and CPU per event of each stage, for the cost model of docs/scale.md.

Writes build/bench/scale.json, from which scripts/generate_scale_model.py generates the page.

python -m bench.measure_scale [EVENTS]
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import msgspec
from bench import generate
from bench.costs import TICKS_PER_SECOND, Cost, measure_cost
from bench.figures import Report
from bench.logs import SEED, Log, open_log
from bench.measure_collector import run_collector, run_senders
from bench.measure_storage import run_clew
from bench.processes import cpu_ticks
from bench.rounds import BUILD, parse_run_size, scratch_folder
from bench.scale import ScaleRun, StageCosts
from bench.whole_log import check_event_count, ingest_into_tables, rebuild_index, remove_output
from pyspark.sql import SparkSession

from clew import __version__
from clew.data_dir import DataDir
from clew.index.changes import ChangeSet
from clew.index.writer import IndexWriter
from clew.lake.history import read_table_sizes
from clew.lake.schemas import EVENT_TABLE_NAMES
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.spark.session import build_session

OUTPUT = BUILD / "scale.json"
_CLIENTS = 16
_MAX_SENT_EVENTS = 10_000


def main() -> None:
    """Measure, and write the result."""
    run_size = parse_run_size(__doc__)
    report = Report("scale", run_size)
    log = open_log(run_size.events)
    collector_seconds, event_bytes = measure_collector(min(run_size.events, _MAX_SENT_EVENTS))
    report.log(f"collector: {1e3 * collector_seconds:.3f} ms of CPU per event")
    with scratch_folder() as folder:
        costs = measure_stages(log, log.create_home(folder / "home"), event_bytes, collector_seconds, report)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    run = ScaleRun(
        datetime.now(UTC).date().isoformat(),
        __version__,
        _cpu_model(),
        os.cpu_count() or 1,
        round(memory, 1),
        platform.python_version(),
        log.events,
        costs,
    )
    OUTPUT.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
    report.log(f"written to {OUTPUT}")


def measure_collector(count: int) -> tuple[float, float]:
    """Return the CPU-seconds of the collector per event, and the mean size of an event."""
    events = list(dict.fromkeys(islice(generate.generate_events(10**9, SEED), count)))
    with scratch_folder() as folder:
        file = folder / "events.jsonl"
        file.write_bytes(b"\n".join(events) + b"\n")
        with run_collector(folder / "home") as (port, pid):
            before = cpu_ticks(pid)
            run_senders(port, _CLIENTS, file)
            seconds = (cpu_ticks(pid) - before) / TICKS_PER_SECOND
    return seconds / len(events), sum(map(len, events)) / len(events)


class TimedApply:
    """Wrapper of `IndexWriter.apply` that adds up its duration."""

    def __init__(self) -> None:
        self._apply = IndexWriter.apply
        self.seconds = 0.0

    def __get__(self, index: IndexWriter, _: type[IndexWriter]) -> Callable[..., None]:
        return partial(self._apply_and_time, index)

    def _apply_and_time(self, index: IndexWriter, batch: str, changes: ChangeSet, spilled: Iterable[ChangeSet]) -> None:
        started = time.monotonic()
        self._apply(index, batch, changes, spilled)
        self.seconds += time.monotonic() - started


def ingest_and_derive(log: Log, home: DataDir, spark: SparkSession) -> tuple[Cost, Cost, float]:
    """Return the costs of tables and index, and of the derived tables, and the wall time of the index writer."""
    remove_output(home)
    timer = TimedApply()
    with open_pipeline(home, spark=spark) as pipeline, patch.object(IndexWriter, "apply", timer):
        ingestion = measure_cost(pipeline.ingest_available)
        check_event_count("index", pipeline.index.event_count, log.events)
        return ingestion, measure_cost(pipeline.refresh), timer.seconds


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def measure_stages(log: Log, home: DataDir, event_bytes: float, collector_seconds: float, report: Report) -> StageCosts:
    """Measure the pipeline, each cost from the second run of one session, and the sizes of what it wrote."""
    spark = build_session(launcher_dir=home.root / "java")
    tables = [ingest_into_tables(log, home, spark) for _ in range(2)][-1]
    report.log(f"tables {tables.rate(log.events)}")
    ingestion, derivation, writer_seconds = [ingest_and_derive(log, home, spark) for _ in range(2)][-1]
    report.log(f"tables and index {ingestion.rate(log.events)}; derived {derivation.rate(log.events)}")
    report.log(f"index writer {1e3 * writer_seconds / log.events:.3f} ms per event")
    rebuilt = rebuild_index(home, spark)
    report.log(f"index rebuilt {rebuilt.rate(log.events)}")
    run_clew("pipeline", "compact", "--retention-hours", "0", "--force", home=home)
    sizes = {size.name: size.bytes / log.events for size in read_table_sizes(home.lake)}
    events = sum(sizes[name] for name in EVENT_TABLE_NAMES)
    return StageCosts(
        event_bytes=event_bytes,
        log_bytes=log.end / log.events,
        event_table_bytes=events,
        derived_table_bytes=sum(sizes.values()) - events,
        index_bytes=home.index_file.stat().st_size / log.events,
        collector_seconds=collector_seconds,
        tables_seconds=tables.cpu / log.events,
        index_seconds=max(0.0, ingestion.cpu - tables.cpu) / log.events,
        index_writer_seconds=writer_seconds / log.events,
        derivation_seconds=derivation.cpu / log.events,
        rebuild_seconds=rebuilt.cpu / log.events,
    )


if __name__ == "__main__":
    main()
