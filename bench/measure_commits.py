"""Benchmark: duration of a commit after thousands of others, while the stream's maintenance compacts small files.

The last commits alternate with those of a new lake, so that both have the same disk and load: on one lake alone, the
last hundred were twice as slow as the first in one run, and as fast in another, within ten minutes.

Batches are ingested like in the pipeline, but in this process without Spark, whose share of a batch does not depend on
the size of the lake.

python -m bench.measure_commits [EVENTS]     a full run makes 1,000 commits
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from itertools import islice
from statistics import fmean
from typing import Any, cast

import pyarrow as pa
from bench.figures import Report
from bench.logs import Log, open_log
from bench.rounds import parse_run_size, scratch_folder
from pyspark.sql import DataFrame

from clew.data_dir import DataDir, IndexLocation, LakeLocation
from clew.eventlog.segments import SegmentRange, read_lines, split_ranges
from clew.index.changes import ChangeSet
from clew.index.writer import IndexWriter
from clew.lake.data_files import DataFile
from clew.lake.lake import BatchId, Lake
from clew.pipeline.ingest import BatchIngestor
from clew.pipeline.maintenance import BackgroundMaintenance, MaintenanceConfig, MaintenanceStats

_COMMITS = 1_000
_EVENTS_PER_COMMIT = 20
# Commits are more frequent than in a stream, so maintenance polls more often.
_MAINTENANCE = MaintenanceConfig(poll_interval_seconds=1)
# The first commits have an empty lake, and an index without a dictionary.
_WARM_UP_COMMITS = 100
_COMPARED_COMMITS = 100
_MIN_COMMITS = 4


@dataclass
class Stopwatch:
    """Sum of the seconds of several calls."""

    seconds: float = 0.0

    def measure(self, function: Callable[[], Any]) -> Any:
        """Call a function, and add its duration."""
        start = time.perf_counter()
        try:
            return function()
        finally:
            self.seconds += time.perf_counter() - start

    def reset(self) -> float:
        """Return the seconds since the last reset, and start at zero."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


class TimedLake(Lake):
    """Lake that measures its commits."""

    def __init__(self, root: LakeLocation) -> None:
        super().__init__(root)
        self.stopwatch = Stopwatch()

    def append(self, name: str, schema: pa.Schema, files: list[DataFile], batch: BatchId) -> bool:
        """Append files to a table."""
        return bool(self.stopwatch.measure(lambda: super(TimedLake, self).append(name, schema, files, batch)))


class TimedIndex(IndexWriter):
    """Index that measures its commits."""

    def __init__(self, location: IndexLocation) -> None:
        super().__init__(location)
        self.stopwatch = Stopwatch()

    def apply(self, batch: str, changes: ChangeSet, spilled: Iterable[ChangeSet] = ()) -> None:
        """Apply the changes of a batch."""
        self.stopwatch.measure(lambda: super(TimedIndex, self).apply(batch, changes, spilled))


@dataclass(frozen=True)
class LocalFrame:
    """In-process stand-in for a DataFrame of byte ranges."""

    batches: list[pa.RecordBatch]

    def mapInArrow(  # noqa: N802  # Spark's name
        self, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], _: object
    ) -> LocalFrame:
        """Apply a worker to the batches."""
        return LocalFrame(list(function(iter(self.batches))))

    def toArrow(self) -> pa.Table:  # noqa: N802  # Spark's name
        """Return all rows."""
        return pa.Table.from_batches(self.batches)


@dataclass(frozen=True)
class CommitSeconds:
    """Seconds of a commit, and its CPU seconds in this process."""

    lake: float
    index: float
    cpu: float


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("commits", run_size)
    warm_up, compared = (run_size.scale(count, _MIN_COMMITS) for count in (_WARM_UP_COMMITS, _COMPARED_COMMITS))
    log = open_log(_EVENTS_PER_COMMIT * run_size.scale(_COMMITS, 2 * compared + warm_up))
    stats = MaintenanceStats()
    with (
        scratch_folder() as folder,
        open_committer(log, log.create_home(folder / "old"), stats) as (commit_old, commits),
    ):
        for _ in range(commits - compared):
            commit_old()
        with open_committer(log, log.create_home(folder / "new"), MaintenanceStats()) as (commit_new, _):
            for _ in range(warm_up):
                commit_new()
            pairs = [(commit_old(), commit_new()) for _ in range(compared)]
    report.log(f"{commits:,} commits of {_EVENTS_PER_COMMIT} events, {stats.compactions} compactions of a table")
    means = [
        CommitSeconds(*(fmean(values) for values in zip(*map(astuple, side), strict=True)))
        for side in zip(*pairs, strict=True)
    ]
    for name, mean in zip(("old", "new"), means, strict=True):
        report.log(f"{name:6} lake {mean.lake * 1000:.1f} ms, index {mean.index * 1000:.1f} ms")
    old, new = (mean.lake + mean.index for mean in means)
    report.check_max(
        f"mean of the last {_COMPARED_COMMITS} commits / of a new lake",
        old / new,
        1.5,
        "×",
        cpu_ratio=means[0].cpu / means[1].cpu,
    )


@contextmanager
def open_committer(
    log: Log, home: DataDir, stats: MaintenanceStats
) -> Iterator[tuple[Callable[[], CommitSeconds], int]]:
    """Yield a function that commits the next batch of the log, and the number of batches, while maintenance runs."""
    lake = TimedLake(home.lake)
    lake.create_or_validate()
    maintenance = BackgroundMaintenance(home.lake, lambda _: False, print, _MAINTENANCE, stats)
    batches = list(split_into_batches(log))
    with TimedIndex(home.index) as index, BatchIngestor(lake, index, "bench") as ingestor, maintenance:
        remaining = enumerate(batches)

        def commit() -> CommitSeconds:
            number, ranges = next(remaining)
            cpu = time.thread_time()
            ingestor(cast("DataFrame", LocalFrame([pa.RecordBatch.from_pylist(list(map(asdict, ranges)))])), number)
            ingestor.flush()
            return CommitSeconds(lake.stopwatch.reset(), index.stopwatch.reset(), time.thread_time() - cpu)

        yield commit, len(batches)
    if stats.errors:
        message = f"Maintenance failed {stats.errors} times."
        raise RuntimeError(message)


def split_into_batches(log: Log) -> Iterator[list[SegmentRange]]:
    """Split the log into ranges of a few events."""
    positions = (seq for range_ in split_ranges(log.folder, 0, log.end, log.end) for seq, _ in read_lines(range_))
    starts = list(islice(positions, 0, None, _EVENTS_PER_COMMIT))
    for start, end in zip(starts, [*starts[1:], log.end], strict=True):
        yield split_ranges(log.folder, start, end, end - start)


if __name__ == "__main__":
    main()
