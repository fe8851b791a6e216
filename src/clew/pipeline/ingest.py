"""Ingest one batch: find duplicates, commit table files, write the index asynchronously."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame

from clew.errors import ClewError
from clew.index.changes import ChangeSet
from clew.index.writer import IndexWriter
from clew.lake.data_files import DataFile
from clew.lake.lake import BatchId, Lake
from clew.lake.schemas import EVENT_GRAIN_TABLES, EVENT_TABLES
from clew.pipeline.checkpoint import RawOnlyRanges
from clew.pipeline.sources.event_source import LogEventReader
from clew.pipeline.spark.dataframes import write_events
from clew.pipeline.spark.session import RETRY_HINT
from clew.pipeline.spark.worker_daemon import trim_heap
from clew.pipeline.worker_reports import SpilledChanges, WorkerReport
from clew.pipeline.workers import EventTask, read_log_events


class AsyncIndexWriter:
    """Applies batches in a thread. A context manager: on exit, all batches are written."""

    def __init__(self, index: IndexWriter) -> None:
        self._index = index
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="clew-index")
        self._pending: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.flush()
            self._index.release_memory()
            trim_heap()
        finally:
            self._thread.shutdown()

    def apply(self, batch: str, changes: ChangeSet, spilled: Iterable[ChangeSet] = ()) -> None:
        """Apply a batch in the background after all previous ones; see `IndexWriter.apply`."""
        self.flush()
        self._pending = self._thread.submit(self._apply, batch, changes, spilled)

    def _apply(self, batch: str, changes: ChangeSet, spilled: Iterable[ChangeSet]) -> None:
        self._index.apply(batch, changes, spilled)
        if spilled:
            trim_heap()

    def flush(self) -> None:
        """Wait until all batches are written."""
        pending, self._pending = self._pending, None
        if pending is not None:
            try:
                pending.result()
            except OSError as error:
                raise ClewError(f"The index is not writable: {error}.", hint=RETRY_HINT) from error


@dataclass
class IngestStats:
    """Counters of ingested batches; `events` excludes rejected and duplicate events.

    `corrupt_records` of the rejected events are damaged parts of the log.
    """

    batches: int = 0
    events: int = 0
    rejected: int = 0
    duplicates: int = 0
    corrupt_records: int = 0
    rows: dict[str, int] = field(default_factory=dict)


class BatchIngestor:
    """Ingests batches exactly once. A context manager: on exit, the index has all batches.

    A batch is written to the index while the next one is processed. After a crash, a batch may be committed to the lake
    and the checkpoint, but missing in the index: it is repeated under its number, which the lake skips.
    """

    def __init__(
        self,
        lake: Lake,
        index: IndexWriter,
        app_id: str,
        raw_only_ranges: RawOnlyRanges = (),
        read: LogEventReader = read_log_events,
    ) -> None:
        self._lake = lake
        self._index = index
        self._app_id = app_id
        self._raw_only_ranges = raw_only_ranges
        self._read = read
        self._order = lake.facet_order
        self._index_writer = AsyncIndexWriter(index)
        self.stats = IngestStats()

    def __enter__(self) -> Self:
        self._index_writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._index_writer.__exit__(kind, error, trace)

    def __call__(self, ranges: DataFrame, number: int) -> None:
        """Ingest one batch. An interrupted batch may be repeated under its number."""
        batch = BatchId(self._app_id, number)
        written = self._write(ranges)
        # Duplicates are only found in an index that has all earlier batches.
        self.flush()
        duplicates = self._find_duplicates(written.changes, str(batch))
        if duplicates:
            # Duplicates are rare: checking before writing would need a second pass over every batch.
            self._lake.delete_uncommitted(written.files)
            written.delete_spilled()
            written = self._write(ranges, duplicates)
        duplicate_files = self._lake.append_tables(EVENT_TABLES, written.files, batch)
        self._index_writer.apply(str(batch), written.changes, SpilledChanges(written.spilled))
        self._lake.delete_uncommitted(duplicate_files)
        self.stats.corrupt_records += written.corrupt_records
        self._count(written.files, len(duplicates))

    def flush(self) -> None:
        """Wait until the index has all batches."""
        self._index_writer.flush()

    def _write(self, ranges: DataFrame, duplicate_seqs: frozenset[int] = frozenset()) -> WorkerReport:
        read = partial(self._read, duplicate_seqs=duplicate_seqs, raw_only_ranges=self._raw_only_ranges)
        return write_events(ranges, EventTask(str(self._lake.root), read, self._index.dictionary, self._order))

    def _find_duplicates(self, changes: ChangeSet, batch: str) -> frozenset[int]:
        """Find events, by `seq`, that are in the lake already or earlier in this batch.

        An event that was rejected before and can be decoded now is not a duplicate, so that replays are ingested.
        """
        by_outcome = ((changes.events, False), (changes.rejected, True))
        event_ids = sorted((*event, is_rejected) for events, is_rejected in by_outcome for event in events)
        ingested = self._index.existing_event_ids([identity for _, identity, _ in event_ids], batch)
        rejected = self._index.existing_event_ids([identity for _, identity in changes.rejected], batch, "rejected")
        duplicates = set()
        for seq, identity, is_rejected in event_ids:
            if identity in ingested or (is_rejected and identity in rejected):
                duplicates.add(seq)
            (rejected if is_rejected else ingested).add(identity)
        return frozenset(duplicates)

    def _count(self, files: list[DataFile], duplicates: int) -> None:
        self.stats.batches += 1
        self.stats.duplicates += duplicates
        for file in files:
            self.stats.rows[file.table] = self.stats.rows.get(file.table, 0) + file.rows
        self.stats.rejected = self.stats.rows.get("rejected_events", 0)
        self.stats.events = sum(self.stats.rows.get(table, 0) for table in EVENT_GRAIN_TABLES) - self.stats.rejected
