"""A whole log taken in from its start, in a session that is already warm."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

from bench.costs import Cost, measured
from bench.logs import Log
from bench.tables_only import tables_only
from pyspark.sql import SparkSession

from clew.data_dir import DataDir
from clew.index.backends.sqlite import remove_index
from clew.index.changes import ChangeSet
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.pipeline import open_pipeline


@dataclass(frozen=True)
class Taken:
    """What it cost to take events in, tables and index together, and to derive tables from them.

    `per_second` is how fast events went by once the stream was under way.
    """

    intake: Cost
    derivation: Cost
    per_second: float

    @property
    def whole(self) -> Cost:
        """Both."""
        return self.intake + self.derivation


def take_into_tables(log: Log, home: DataDir, spark: SparkSession) -> Cost:
    """Raw events into committed event tables; no index."""
    clear(home)
    with open_pipeline(home, spark=spark) as pipeline, tables_only(pipeline) as without_index:
        cost = measured(without_index.ingest_available)
        require_all("lake", events_in(pipeline.lake), log.events)
    return cost


def take_whole(log: Log, home: DataDir, spark: SparkSession) -> Taken:
    """Raw events into tables and index, then derived tables."""
    clear(home)
    with open_pipeline(home, spark=spark) as pipeline, patch.object(IndexWriter, "apply", Applied()) as applied:
        intake = measured(pipeline.ingest_available)
        require_all("lake", events_in(pipeline.lake), log.events)
        require_all("index", pipeline.index.event_count, log.events)
        return Taken(intake, measured(pipeline.refresh), applied.per_second)


class Applied:
    """Stands in for the sink's `apply`: does the same, and notes when how many events could be seen in the index."""

    def __init__(self) -> None:
        self._apply = IndexWriter.apply
        self._seen: list[tuple[float, int]] = []

    def __get__(self, sink: IndexWriter, _: type[IndexWriter]) -> Callable[..., None]:
        return partial(self._note, sink)

    def _note(self, sink: IndexWriter, batch: str, changes: ChangeSet, aside: Iterable[ChangeSet]) -> None:
        self._apply(sink, batch, changes, aside)
        self._seen.append((time.monotonic(), len(changes.events)))

    @property
    def per_second(self) -> float:
        """From the moment when the first batch could be seen to the moment when the last could."""
        (begin, _), *others = self._seen
        return sum(count for _, count in others) / (others[-1][0] - begin)


def rebuild(home: DataDir, spark: SparkSession) -> Cost:
    """The index anew from the lake: a pipeline that finds none does it when it is opened."""
    remove_index(home.index_file)
    return measured(lambda: _open(home, spark))


def require_all(place: str, found: int, wanted: int) -> None:
    """A figure over fewer events than it names would be too good."""
    if found != wanted:
        message = f"The {place} holds {found} of {wanted} events."
        raise RuntimeError(message)


def events_in(lake: Lake) -> int:
    """How many events the lake holds."""
    return lake.row_counts()["lineage_events"]


def clear(home: DataDir) -> None:
    """Leave nothing but the log."""
    for folder in (home.checkpoint, home.lake_folder):
        shutil.rmtree(folder, ignore_errors=True)
    remove_index(home.index_file)


def _open(home: DataDir, spark: SparkSession) -> None:
    with open_pipeline(home, spark=spark) as pipeline:
        require_all("index", pipeline.index.event_count, events_in(pipeline.lake))
