"""Benchmark: memory of ingesting events of 10 MB from one gzip file, which cannot be split, and cost of wide events.

The memory of the command, the JVM and all workers together is sampled ten times per second. Shared pages count once
(PSS). The cost of an event with many inputs and outputs is the CPU of decoding it, building its rows and merging them
into a new index; per byte, it must not grow with the event.

python -m bench.measure_big_events [EVENTS]     a full run ingests 48 of them
"""

from __future__ import annotations

import gzip
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import msgspec
from bench.figures import Baseline, Report
from bench.generate import big_event, make_jobs, make_tables
from bench.logs import SEED
from bench.memory import run_and_measure_peak
from bench.plain import measure_parsing_memory
from bench.rounds import parse_run_size, scratch_folder

from clew.events.ids import event_id
from clew.events.openlineage import decode_openlineage
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.lake.event_rows import LineageTableBuilder, ReceivedEvent

_EVENTS = 48
_EVENT_BYTES = 10_000_000
# Inputs, and as many outputs.
_DATASETS = 375, 3_000
_ROUNDS = 3


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("big_events", run_size)
    count = run_size.scale(_EVENTS, minimum=2)
    with scratch_folder() as folder:
        events = folder / "big.jsonl.gz"
        size = write_events(count, events)
        report.log(
            f"{count} events, {size / count / 1e6:.1f} MB each, in one file of {events.stat().st_size / 1e6:,.0f} MB"
        )
        home = str(folder / "home")
        command = [sys.executable, "-m", "clew", "pipeline", "run", "--from", str(events), "--json", "--home", home]
        peak, process = run_and_measure_peak(command)
        parsing = measure_parsing_memory(events)
    ingested = msgspec.json.decode(process.stdout)["events"] if process.returncode == 0 else 0
    if ingested != count:
        print(process.stderr, file=sys.stderr)
    report.log(f"with shared pages counted per process (RSS): {peak.rss / 1e6:,.0f} MB")
    report.check_min("ingested big events", ingested, count)
    report.check_max(
        "memory of all processes (PSS)",
        peak.pss / 1e6,
        2_000,
        " MB",
        baseline=Baseline("one process that parses one event at a time with json.loads", parsing.pss / 1e6),
    )
    small, large = (min(cpu_per_byte(datasets) for _ in range(_ROUNDS)) for datasets in _DATASETS)
    report.log(
        f"CPU per MB, {_DATASETS[0]:,} inputs and outputs: {small * 1e9:.0f} ms, {_DATASETS[1]:,}: {large * 1e9:.0f} ms"
    )
    report.check_max("CPU per byte of an event with eight times as many inputs and outputs", large / small, 1.5)


def cpu_per_byte(datasets: int) -> float:
    """Measure the CPU seconds per byte of an event with a number of inputs and as many outputs."""
    body = wide_event(datasets)
    with scratch_folder() as folder, IndexWriter(folder / "index.sqlite") as index:
        started = time.process_time()
        event, extractor, rows = decode_openlineage(body), ChangeExtractor(), LineageTableBuilder()
        extractor.add(event, event_id(body), 0)
        rows.add(event, ReceivedEvent(event_id(body), 0, datetime.now(UTC), "bench", body))
        rows.drain()
        index.apply("bench/0", extractor.changes())
        return (time.process_time() - started) / len(body)


def wide_event(datasets: int) -> bytes:
    """Make an event of a replication job: each output is a copy of an input."""
    fields = [{"name": f"column_{number}", "type": "varchar"} for number in range(10)]
    inputs, outputs = (
        [
            {"namespace": "db", "name": f"{side}.table_{number}", "facets": {"schema": {"fields": fields}}}
            for number in range(datasets)
        ]
        for side in ("source", "target")
    )
    run, job = {"runId": "0195486f-8a00-7000-8000-000000000001"}, {"namespace": "bench", "name": "replication"}
    event = {"eventType": "COMPLETE", "eventTime": "2026-01-01T10:00:00Z", "run": run, "job": job}
    return msgspec.json.encode({**event, "inputs": inputs, "outputs": outputs})


def write_events(count: int, path: Path) -> int:
    """Write a number of big events, and return their bytes."""
    random, size = Random(SEED), 0
    jobs = make_jobs(random, make_tables(random))
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(count):
            size += file.write(big_event(random, random.choice(jobs), _EVENT_BYTES) + b"\n")
    return size


if __name__ == "__main__":
    main()
