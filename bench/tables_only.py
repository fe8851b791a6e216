"""The pipeline without its index, and the same work without Spark: the cost of tables alone."""

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
from bench.costs import Cost, measure_cost
from bench.logs import Log

from clew.data_dir import IndexLocation
from clew.eventlog.segments import SegmentRange, split_ranges
from clew.index.changes import ChangeSet
from clew.index.writer import IndexWriter
from clew.pipeline import ingest, workers
from clew.pipeline.pipeline import Pipeline
from clew.pipeline.sources.log_source import MAX_BYTES_PER_TASK
from clew.pipeline.workers import EventTask, read_log_events

_PROCESSES = 2


class EventIdExtractor:
    """Replacement of `ChangeExtractor` that records only event ids, which commits need."""

    def __init__(self, *_: object) -> None:
        self._changes = ChangeSet()

    def add(self, event: object, event_id: str, seq: int) -> None:
        """Record an event id; the event is None if it was rejected."""
        (self._changes.rejected if event is None else self._changes.events).append((seq, event_id))

    def changes(self) -> ChangeSet:
        """Return the recorded ids."""
        return self._changes


class TableTask(EventTask):
    """Task of the pipeline without change extraction."""

    def __call__(self, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the events of ranges; the function for `mapInArrow`."""
        with patch.object(workers, "ChangeExtractor", EventIdExtractor):
            yield from super().__call__(ranges)


class EventIdIndex(IndexWriter):
    """Index of event ids only, to find duplicates."""

    dictionary = None

    def __init__(self, location: IndexLocation) -> None:
        super().__init__(location)
        self._batch_by_event: dict[str, str] = {}

    def existing_event_ids(
        self,
        event_ids: Sequence[str],
        batch: str,
        table: Literal["events", "rejected"] = "events",  # noqa: ARG002
    ) -> set[str]:
        """Return the ids of other batches."""
        return {event_id for event_id in event_ids if self._batch_by_event.get(event_id, batch) != batch}

    def last_batch(self, app_id: str) -> None:
        """Return None."""

    def record_batch(self, app_id: str, number: int) -> None:
        """Do nothing."""

    def apply(self, batch: str, changes: ChangeSet, spilled: Iterable[ChangeSet] = ()) -> None:  # noqa: ARG002
        """Store the event ids of a batch."""
        self._batch_by_event.update((event_id, batch) for _, event_id in (*changes.events, *changes.rejected))

    def release_memory(self) -> None:
        """Do nothing."""


@contextmanager
def without_index(pipeline: Pipeline) -> Iterator[Pipeline]:
    """Yield the pipeline without its index."""
    with patch.object(ingest, "EventTask", TableTask):
        yield replace(pipeline, index=EventIdIndex(pipeline.home.index))


def measure_two_processes(log: Log, root: Path) -> Cost:
    """Measure two plain processes that write the same files, in a second run, without Spark, commits and index."""
    # The task size of the pipeline, so that files have the same size.
    ranges = split_ranges(log.folder, 0, log.end, MAX_BYTES_PER_TASK)
    with multiprocessing.get_context("spawn").Pool(_PROCESSES) as pool:
        for folder in ("first", "warm"):
            tasks = [(range_, str(root / folder)) for range_ in ranges]
            cost = measure_cost(partial(pool.starmap, _write_range, tasks, 1))
    return cost


def _write_range(range_: SegmentRange, root: str) -> None:
    for _ in TableTask(root, read_log_events)(iter([pa.RecordBatch.from_pylist([asdict(range_)])])):
        pass
