"""Timing and recording of ingested batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy

from pyspark.sql import DataFrame

from clew.pipeline.checkpoint import Checkpoint
from clew.pipeline.ingest import BatchIngestor, IngestStats
from clew.pipeline.journal import BatchRecord, append_batch_record

BatchListener = Callable[[BatchRecord], None]


class BatchRecorder:
    """Ingests batches, appends them to the batch history and notifies the listeners."""

    def __init__(
        self, ingestor: BatchIngestor, checkpoint: Checkpoint, listeners: Sequence[BatchListener] = ()
    ) -> None:
        self._ingestor = ingestor
        self._checkpoint = checkpoint
        self._listeners = listeners

    def __call__(self, ranges: DataFrame, number: int) -> None:
        """Ingest one batch and record it."""
        before, started = deepcopy(self._ingestor.stats), time.monotonic()
        self._ingestor(ranges, number)
        batch = self._record(number, before, time.monotonic() - started)
        append_batch_record(self._checkpoint.root, batch)
        for listener in self._listeners:
            listener(batch)

    def _record(self, number: int, before: IngestStats, seconds: float) -> BatchRecord:
        after = self._ingestor.stats
        return BatchRecord(
            app_id=self._checkpoint.app_id,
            number=number,
            committed_at_ms=int(time.time() * 1000),
            seconds=round(seconds, 3),
            events=after.events - before.events,
            rejected=after.rejected - before.rejected,
            duplicates=after.duplicates - before.duplicates,
            rows={name: rows - before.rows.get(name, 0) for name, rows in after.rows.items()},
            end_offset=self._checkpoint.batch_end_offset(number) or 0,
        )
