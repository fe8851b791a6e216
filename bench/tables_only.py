"""The pipeline with its index left out, and the same work without Spark: what the tables alone cost."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import pyarrow as pa
from bench.costs import Cost, measured
from bench.logs import Log

from clew.data_dir import IndexLocation
from clew.eventlog.segments import SegmentRange, split_ranges
from clew.index.changes import ChangeSet
from clew.index.writer import IndexWriter
from clew.pipeline import ingest, workers
from clew.pipeline.log_source import MAX_BYTES_PER_TASK
from clew.pipeline.pipeline import Pipeline
from clew.pipeline.workers import EventWorker

_PROCESSES = 2


class Identities:
    """Stands in for the observer: notes which events there were, which commits ask for, and nothing of the index."""

    def __init__(self, *_: object) -> None:
        self._changes = ChangeSet()

    def add(self, event: object, event_id: str, seq: int) -> None:
        """Take note of an event; None stands for one that was rejected."""
        (self._changes.rejected if event is None else self._changes.events).append((seq, event_id))

    def changes(self) -> ChangeSet:
        """What a batch must tell."""
        return self._changes


class TableWorker(EventWorker):
    """The pipeline's worker without its observer."""

    def __call__(self, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function for `mapInArrow`."""
        with patch.object(workers, "ChangeExtractor", Identities):
            yield from super().__call__(ranges)


class NoIndex(IndexWriter):
    """An index that knows which events there were, so that none is taken twice, and nothing else."""

    dictionary = None

    def __init__(self, place: IndexLocation) -> None:
        super().__init__(place)
        self._taken: dict[str, str] = {}

    def existing_event_ids(
        self,
        event_ids: Sequence[str],
        batch: str,
        table: Literal["events", "rejected"] = "events",  # noqa: ARG002
    ) -> set[str]:
        """Those that came with another batch."""
        return {identity for identity in event_ids if self._taken.get(identity, batch) != batch}

    def last_batch(self, app_id: str) -> None:
        """None."""

    def record_batch(self, app_id: str, number: int) -> None:
        """Forget it."""

    def apply(self, batch: str, changes: ChangeSet, spilled: Iterable[ChangeSet] = ()) -> None:  # noqa: ARG002
        """Remember who was there."""
        self._taken.update((identity, batch) for _, identity in (*changes.events, *changes.rejected))

    def release_memory(self) -> None:
        """There is nothing to give back."""


@contextmanager
def tables_only(pipeline: Pipeline) -> Iterator[Pipeline]:
    """The same pipeline, as long as this lasts without an index."""
    with patch.object(ingest, "EventWorker", TableWorker):
        yield replace(pipeline, index=NoIndex(pipeline.home.index))


def two_processes(log: Log, root: Path) -> Cost:
    """What two plain processes take to write the same files, the second time: without Spark, commits or index."""
    # As much as the pipeline gives to a task, so that both write files of the same size.
    parts = split_ranges(log.folder, 0, log.end, MAX_BYTES_PER_TASK)
    with multiprocessing.get_context("spawn").Pool(_PROCESSES) as pool:
        for folder in ("first", "warm"):
            tasks = [(part, str(root / folder)) for part in parts]
            cost = measured(partial(pool.starmap, _take_apart, tasks, 1))
    return cost


def _take_apart(part: SegmentRange, root: str) -> None:
    for _ in TableWorker(root)(iter([pa.RecordBatch.from_pylist([asdict(part)])])):
        pass
