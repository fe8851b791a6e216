"""Whether a commit takes longer when thousands have gone before it, while the stream's own upkeep merges small files.

The last commits take turns with those of a lake that is young, so that both meet the same disk and the same neighbours:
of one lake alone, the last hundred were once twice as slow as the first, and once as fast, within ten minutes.

Batches are taken in as the pipeline does, but in this process, without Spark: its share of a batch does not depend on
what the lake holds.

python -m bench.measure_commits [EVENTS]     a full round makes 2,000 commits
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from statistics import fmean
from typing import Any, cast

import pyarrow as pa
from bench.figures import Report
from bench.logs import Log, log_of
from bench.rounds import asked_for, scratch
from pyspark.sql import DataFrame

from clew.data_dir import DataDir, IndexLocation, LakeLocation
from clew.eventlog.segments import SegmentRange, read_lines, split_ranges
from clew.index.changes import ChangeSet
from clew.index.writer import IndexWriter
from clew.lake.data_files import DataFile
from clew.lake.lake import BatchId, Lake
from clew.pipeline.ingest import BatchIngestor
from clew.pipeline.maintenance import BackgroundMaintenance, MaintenanceConfig, MaintenanceStats

_COMMITS = 2_000
_EVENTS_PER_COMMIT = 20
# Commits come faster here than a stream makes them, so upkeep looks more often, too.
_CARE = MaintenanceConfig(poll_interval_seconds=1)
# The first hundred of a lake meet one that is empty, and an index that has no dictionary yet.
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

    def __init__(self, root: LakeLocation) -> None:
        super().__init__(root)
        self.watch = Watch()

    def append(self, name: str, schema: pa.Schema, files: list[DataFile], batch: BatchId) -> bool:
        """Add files to a table."""
        return bool(self.watch.timed(lambda: super(WatchedLake, self).append(name, schema, files, batch)))


class WatchedIndex(IndexWriter):
    """An index whose commits are timed."""

    def __init__(self, place: IndexLocation) -> None:
        super().__init__(place)
        self.watch = Watch()

    def apply(self, batch: str, changes: ChangeSet, aside: Iterable[ChangeSet] = ()) -> None:
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


@dataclass(frozen=True)
class Seconds:
    """What a commit took."""

    lake: float
    index: float


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("commits", asked)
    log = log_of(_EVENTS_PER_COMMIT * asked.share(_COMMITS, 2 * _COMPARED + _WARM_UP))
    cared = MaintenanceStats()
    with scratch() as folder, committing(log, log.home(folder / "old"), cared) as (commit_old, commits):
        for _ in range(commits - _COMPARED):
            commit_old()
        with committing(log, log.home(folder / "young"), MaintenanceStats()) as (commit_young, _):
            for _ in range(_WARM_UP):
                commit_young()
            pairs = [(commit_old(), commit_young()) for _ in range(_COMPARED)]
    report.say(f"{commits:,} commits of {_EVENTS_PER_COMMIT} events, {cared.compactions} merges of a table's files")
    means = [
        Seconds(fmean(one.lake for one in side), fmean(one.index for one in side)) for side in zip(*pairs, strict=True)
    ]
    for name, mean in zip(("old", "young"), means, strict=True):
        report.say(f"{name:6} lake {mean.lake * 1000:.1f} ms, index {mean.index * 1000:.1f} ms")
    old, young = (mean.lake + mean.index for mean in means)
    report.at_most(f"mean of the last {_COMPARED} commits / of those of a young lake", old / young, 1.5, "×")


@contextmanager
def committing(log: Log, home: DataDir, cared: MaintenanceStats) -> Iterator[tuple[Callable[[], Seconds], int]]:
    """A function that commits the log's next small batch, and how often it can be called; upkeep runs meanwhile."""
    lake = WatchedLake(home.lake)
    lake.create_or_validate()
    caretaker = BackgroundMaintenance(home.lake, lambda _: False, print, _CARE, cared)
    batches = list(small_batches(log))
    with WatchedIndex(home.index) as index, BatchIngestor(lake, index, "bench") as ingest, caretaker:
        waiting = enumerate(batches)

        def commit() -> Seconds:
            number, parts = next(waiting)
            ingest(cast("DataFrame", LocalFrame([pa.RecordBatch.from_pylist(list(map(asdict, parts)))])), number)
            ingest.flush()
            return Seconds(lake.watch.read(), index.watch.read())

        yield commit, len(batches)
    if cared.errors:
        message = f"Maintenance failed {cared.errors} times."
        raise RuntimeError(message)


def small_batches(log: Log) -> Iterator[list[SegmentRange]]:
    """The log in ranges of some events each."""
    positions = (seq for part in split_ranges(log.folder, 0, log.end, log.end) for seq, _ in read_lines(part))
    starts = list(islice(positions, 0, None, _EVENTS_PER_COMMIT))
    for start, end in zip(starts, [*starts[1:], log.end], strict=True):
        yield split_ranges(log.folder, start, end, end - start)


if __name__ == "__main__":
    main()
