"""The pipeline against its floor: two plain Python processes that take the same events apart into the same files.

Both are told in CPU-seconds of all their processes, the JVM included, since wall time on a shared machine says little.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from clew.collector.intake import take_files
from clew.collector.log import LogWriter
from clew.collector.segments import Range, end_position, ranges
from clew.home import Home
from clew.pipeline.ingest import Ingested
from clew.pipeline.work import Pipeline, open_pipeline
from clew.pipeline.worker import EventWorker

TICKS = os.sysconf("SC_CLK_TCK")
TASK_BYTES = 16 << 20


@dataclass(frozen=True)
class Cost:
    """What a piece of work took."""

    wall: float
    cpu: float

    def rate(self, events: int) -> str:
        """Events per second of CPU and of wall time."""
        return f"{events / self.cpu:8,.0f} events per CPU-second, {events / self.wall:8,.0f} per second"


def main(events: Path) -> None:
    """Print the figures for one file of events."""
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as scratch:
        home = Home(Path(scratch, "home"))
        with LogWriter(home.log) as log:
            count = take_files([events], log).stored
        print(f"  {count:,} events, {end_position(home.log) / 1e6:,.0f} MB in the log")
        floor = measured(lambda: plain_processes(home, Path(scratch, "plain")))
        print(f"  two plain processes      {floor.rate(count)}")
        with open_pipeline(home) as pipeline:
            for run in ("first", "warm"):
                cost = measured(lambda: take_all(pipeline))
                ratio = floor.cpu / cost.cpu
                print(f"  pipeline, {run:5} run      {cost.rate(count)}, {ratio:.2f} of the plain processes by CPU")
            refresh = measured(pipeline.refresh)
            print(f"  derived tables           {refresh.rate(count)}")
        size = sum(path.stat().st_size for path in home.lake.rglob("*.parquet"))
        print(f"  {size / count:,.0f} bytes of lake and {home.index.stat().st_size / count:,.0f} of index per event")


def take_all(pipeline: Pipeline) -> Ingested:
    """Take the whole log in, into a lake and an index that are empty."""
    home = pipeline.home
    for folder in (home.checkpoint, home.lake):
        shutil.rmtree(folder, ignore_errors=True)
    home.index.unlink(missing_ok=True)
    with open_pipeline(home, spark=pipeline.spark) as fresh:
        return fresh.take_new()


def plain_processes(home: Home, root: Path) -> None:
    """The work of the workers, without Spark, commits or index."""
    parts = ranges(home.log, 0, end_position(home.log), TASK_BYTES)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(plain_work, [(part, str(root)) for part in parts])


def plain_work(part: Range, root: str) -> None:
    """One range of the log into files."""
    for _ in EventWorker(root)(iter([pa.RecordBatch.from_pylist([asdict(part)])])):
        pass


def measured(work: Callable[[], object]) -> Cost:
    """What some work took, in this process and all below it."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    work()
    return Cost(time.perf_counter() - wall, cpu_seconds() - cpu)


def cpu_seconds() -> float:
    """CPU time of this process and its descendants, those that have ended included."""
    times, children = {}, dict[int, list[int]]()
    for process, parent, ticks in processes():
        times[process] = ticks
        children.setdefault(parent, []).append(process)
    family, total = [os.getpid()], 0
    for process in family:
        family += children.get(process, [])
        total += times.get(process, 0)
    return total / TICKS


def processes() -> Iterator[tuple[int, int, int]]:
    """Id, parent and ticks (own and of ended children) of every process."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(folder.name), int(fields[1]), sum(map(int, fields[11:15]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
