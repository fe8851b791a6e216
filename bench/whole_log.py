"""Ingestion of a whole log in a warm session."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

from bench.costs import Cost, measure_cost
from bench.logs import Log
from bench.tables_only import without_index
from pyspark.sql import SparkSession

from clew.data_dir import DataDir
from clew.index.backends.sqlite import SqliteBackend
from clew.index.changes import ChangeSet
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.pipeline import open_pipeline


@dataclass(frozen=True)
class IngestCost:
    """Cost of ingesting events into tables and index.

    `per_second` is the rate between the first and the last batch, or of the whole if there is only one batch.
    """

    ingestion: Cost
    per_second: float


def ingest_into_tables(log: Log, home: DataDir, spark: SparkSession) -> Cost:
    """Ingest raw events into committed event tables, without an index."""
    remove_output(home)
    with open_pipeline(home, spark=spark) as pipeline, without_index(pipeline) as tables_pipeline:
        cost = measure_cost(tables_pipeline.ingest_available)
        check_event_count("lake", count_events(pipeline.lake), log.events)
    return cost


def ingest_log(log: Log, home: DataDir, spark: SparkSession) -> IngestCost:
    """Ingest raw events into tables and index."""
    remove_output(home)
    with open_pipeline(home, spark=spark) as pipeline, patch.object(IndexWriter, "apply", RecordedApply()) as recorder:
        ingestion = measure_cost(pipeline.ingest_available)
        check_event_count("lake", count_events(pipeline.lake), log.events)
        check_event_count("index", pipeline.index.event_count, log.events)
        return IngestCost(ingestion, recorder.per_second or log.events / ingestion.wall)


class RecordedApply:
    """Wrapper of `IndexWriter.apply` that records the time and the number of events of each batch."""

    def __init__(self) -> None:
        self._apply = IndexWriter.apply
        self._batches: list[tuple[float, int]] = []

    def __get__(self, index: IndexWriter, _: type[IndexWriter]) -> Callable[..., None]:
        return partial(self._apply_and_record, index)

    def _apply_and_record(
        self, index: IndexWriter, batch: str, changes: ChangeSet, spilled: Iterable[ChangeSet]
    ) -> None:
        self._apply(index, batch, changes, spilled)
        self._batches.append((time.monotonic(), len(changes.events)))

    @property
    def per_second(self) -> float | None:
        """Events per second between the commits of the first and the last batch, if there are two."""
        (start, _), *later_batches = self._batches
        if not later_batches:
            return None
        return sum(count for _, count in later_batches) / (later_batches[-1][0] - start)


def rebuild_index(home: DataDir, spark: SparkSession) -> Cost:
    """Rebuild the index from the lake: opening a pipeline does it if the index is missing."""
    SqliteBackend(home.index_file).remove()
    return measure_cost(lambda: _open(home, spark))


def check_event_count(store: str, actual: int, expected: int) -> None:
    """Raise an error if events are missing, because the figure would be too good."""
    if actual != expected:
        message = f"The {store} has {actual} of {expected} events."
        raise RuntimeError(message)


def count_events(lake: Lake) -> int:
    """Count the events of the lake."""
    return lake.row_counts()["lineage_events"]


def remove_output(home: DataDir) -> None:
    """Remove everything except the log."""
    for folder in (home.checkpoint, home.lake_folder):
        shutil.rmtree(folder, ignore_errors=True)
    SqliteBackend(home.index_file).remove()


def _open(home: DataDir, spark: SparkSession) -> None:
    with open_pipeline(home, spark=spark) as pipeline:
        check_event_count("index", pipeline.index.event_count, count_events(pipeline.lake))
