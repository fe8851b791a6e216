"""Benchmark: memory of ingesting events of 10 MB from one gzip file, which cannot be split.

The memory of the command, the JVM and all workers together is sampled ten times per second. Shared pages count once
(PSS).

python -m bench.measure_big_events [EVENTS]     a full run ingests 160 of them
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from random import Random

import msgspec
from bench.figures import Report
from bench.generate import big_event, make_jobs, make_tables
from bench.logs import SEED
from bench.memory import run_and_measure_peak
from bench.rounds import parse_run_size, scratch_folder

_EVENTS = 160
_EVENT_BYTES = 10_000_000


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("big_events", run_size)
    count = run_size.scale(_EVENTS, minimum=8)
    with scratch_folder() as folder:
        events = folder / "big.jsonl.gz"
        size = write_events(count, events)
        report.log(
            f"{count} events, {size / count / 1e6:.1f} MB each, in one file of {events.stat().st_size / 1e6:,.0f} MB"
        )
        home = str(folder / "home")
        command = [sys.executable, "-m", "clew", "pipeline", "run", "--from", str(events), "--json", "--home", home]
        peak, process = run_and_measure_peak(command)
    ingested = msgspec.json.decode(process.stdout)["events"] if process.returncode == 0 else 0
    if ingested != count:
        print(process.stderr, file=sys.stderr)
    report.log(f"with shared pages counted per process (RSS): {peak.rss / 1e6:,.0f} MB")
    report.check_min("ingested big events", ingested, count)
    report.check_max("memory of all processes (PSS)", peak.pss / 1e6, 2_000, " MB")


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
