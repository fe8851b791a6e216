"""Each batch timed, noted and told, once it is taken in."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy

from pyspark.sql import DataFrame

from clew.pipeline.checkpoint import Checkpoint
from clew.pipeline.ingest import Ingest, Ingested
from clew.pipeline.journal import TakenBatch, note

Listener = Callable[[TakenBatch], None]


class Watch:
    """Takes batches in by `ingest`, and tells the listeners how each went."""

    def __init__(self, ingest: Ingest, checkpoint: Checkpoint, listeners: Sequence[Listener] = ()) -> None:
        self._ingest = ingest
        self._checkpoint = checkpoint
        self._listeners = listeners

    def __call__(self, ranges: DataFrame, number: int) -> None:
        """Take one batch in."""
        before, started = deepcopy(self._ingest.taken), time.monotonic()
        self._ingest(ranges, number)
        batch = self._told(number, before, time.monotonic() - started)
        note(self._checkpoint.root, batch)
        for listen in self._listeners:
            listen(batch)

    def _told(self, number: int, before: Ingested, seconds: float) -> TakenBatch:
        after = self._ingest.taken
        return TakenBatch(
            app=self._checkpoint.app,
            number=number,
            at_ms=int(time.time() * 1000),
            seconds=round(seconds, 3),
            events=after.events - before.events,
            rejected=after.rejected - before.rejected,
            repeated=after.repeated - before.repeated,
            rows={name: rows - before.rows.get(name, 0) for name, rows in after.rows.items()},
            position=self._checkpoint.end_of(number) or 0,
        )
