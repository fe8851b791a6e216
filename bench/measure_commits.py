"""Whether a commit takes longer when thousands have gone before it, while the stream's own upkeep merges small files.

Batches are taken in as the pipeline does, but in this process, without Spark: its share of a batch does not depend on
what the lake holds.

python -m bench.measure_commits [EVENTS]     a full round makes 2,000 commits
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from statistics import fmean
from typing import Any, cast

import pyarrow as pa
from bench.figures import Report
from bench.logs import Log, log_of
from bench.rounds import asked_for, scratch
from pyspark.sql import DataFrame

from clew.collector.segments import Range, ranges, read_lines
from clew.home import Home
from clew.index.changes import Changes
from clew.index.sink import IndexSink
from clew.lake.delta import Batch, Lake
from clew.lake.files import DataFile
from clew.pipeline.caretaker import Care, Cared, Caretaker
from clew.pipeline.ingest import Ingest

_COMMITS = 2_000
_EVENTS_PER_COMMIT = 20
# Commits come faster here than a stream makes them, so upkeep looks more often, too.
_CARE = Care(look_seconds=1)
# The first hundred meet an empty lake and an index that has no dictionary yet.
_WARM_UP = 100
_COMPARED = 100


@dataclass
class Watch:
    """Adds up the seconds of one kind of work."""

    seconds: float = 0.0

    def timed(self, work: Callable[[], Any]) -> Any:
        """Do some work on the watch."""
        start = time.perf_counter()
        try:
            return work()
        finally:
            self.seconds += time.perf_counter() - start

    def read(self) -> float:
        """The seconds since this was last asked."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


class WatchedLake(Lake):
    """A lake whose commits are timed."""

    watch = Watch()

    def append(self, name: str, schema: pa.Schema, files: list[DataFile], batch: Batch) -> bool:
        """Add files to a table."""
        return bool(self.watch.timed(lambda: super(WatchedLake, self).append(name, schema, files, batch)))


class WatchedIndex(IndexSink):
    """An index whose commits are timed."""

    watch = Watch()

    def apply(self, batch: str, changes: Changes, aside: Iterable[Changes] = ()) -> None:
        """Merge what a batch changed."""
        self.watch.timed(lambda: super(WatchedIndex, self).apply(batch, changes, aside))


@dataclass(frozen=True)
class LocalFrame:
    """As much of a DataFrame as a batch needs, in this process."""

    batches: list[pa.RecordBatch]

    def mapInArrow(self, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], _: object) -> LocalFrame:  # noqa: N802
        """What a worker makes of it."""
        return LocalFrame(list(work(iter(self.batches))))

    def toArrow(self) -> pa.Table:  # noqa: N802
        """Its rows."""
        return pa.Table.from_batches(self.batches)


@dataclass
class Times:
    """Seconds of each commit in the lake and in the index, and what upkeep did meanwhile."""

    lake: list[float] = field(default_factory=list)
    index: list[float] = field(default_factory=list)
    cared: Cared = field(default_factory=Cared)


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("commits", asked)
    log = log_of(_EVENTS_PER_COMMIT * asked.share(_COMMITS, 2 * _COMPARED + _WARM_UP))
    with scratch() as folder:
        times = commit_all(log, log.home(folder / "home"))
    whole = [sum(one) for one in zip(times.lake, times.index, strict=True)]
    report.say(f"{len(whole):,} commits of {_EVENTS_PER_COMMIT} events, {times.cared.merges} merges of a table's files")
    for name, seconds in (("lake", times.lake), ("index", times.index)):
        first, last = compared(seconds)
        report.say(f"{name:6} first {first * 1000:.1f} ms, last {last * 1000:.1f} ms")
    first, last = compared(whole)
    report.at_most(f"mean of the last {_COMPARED} commits / of the first", last / first, 1.5, "×")


def commit_all(log: Log, home: Home) -> Times:
    """Commit the log in small batches."""
    lake, times = WatchedLake(home.lake), Times()
    lake.prepare()
    caretaker = Caretaker(home.lake, lambda _: False, print, _CARE, times.cared)
    with WatchedIndex(home.index) as index, Ingest(lake, index, "bench") as ingest, caretaker:
        for number, parts in enumerate(small_batches(log)):
            ingest(cast("DataFrame", LocalFrame([pa.RecordBatch.from_pylist(list(map(asdict, parts)))])), number)
            ingest.settle()
            times.lake.append(lake.watch.read())
            times.index.append(index.watch.read())
    if times.cared.faults:
        message = f"Upkeep failed {times.cared.faults} times."
        raise RuntimeError(message)
    return times


def small_batches(log: Log) -> Iterator[list[Range]]:
    """The log in ranges of some events each."""
    positions = (seq for part in ranges(log.folder, 0, log.end, log.end) for seq, _ in read_lines(part))
    starts = list(islice(positions, 0, None, _EVENTS_PER_COMMIT))
    for start, end in zip(starts, [*starts[1:], log.end], strict=True):
        yield ranges(log.folder, start, end, end - start)


def compared(seconds: list[float]) -> tuple[float, float]:
    """The mean of the first, after a warm-up, and of the last."""
    return fmean(seconds[_WARM_UP : _WARM_UP + _COMPARED]), fmean(seconds[-_COMPARED:])


if __name__ == "__main__":
    main()
