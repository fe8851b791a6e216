"""One batch of received events into the lake and the index: the same for a batch, a stream and a replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame

from clew.index.changes import Changes
from clew.index.sink import IndexSink
from clew.lake.delta import Batch, Lake
from clew.lake.files import DataFile
from clew.lake.tables import EVENT_TABLES, ONE_ROW_PER_EVENT
from clew.pipeline.index_thread import IndexThread
from clew.pipeline.lake_tables import write_events
from clew.pipeline.raw_spans import RawSpans
from clew.pipeline.telling import Aside, Told
from clew.pipeline.worker import EventWorker


@dataclass
class Ingested:
    """What a pipeline has taken in so far; `events` are those that are in a table of their own kind."""

    batches: int = 0
    events: int = 0
    rejected: int = 0
    repeated: int = 0
    rows: dict[str, int] = field(default_factory=dict)


class Ingest:
    """Takes batches in, each exactly once. Use as a context manager: at its end the index has all of them.

    The index takes a batch while workers are busy with the next. A batch may thus be in the lake, and done for Spark,
    and not yet in the index. Whoever opens an index gives it such a batch again, under its number: the lake refuses it
    and the index takes it.
    """

    def __init__(
        self,
        lake: Lake,
        index: IndexSink,
        app: str,
        raw_spans: RawSpans = (),
    ) -> None:
        self._lake = lake
        self._index = index
        self._app = app
        self._raw_spans = raw_spans
        self._order = lake.facet_order
        self._thread = IndexThread(index)
        self.taken = Ingested()

    def __enter__(self) -> Self:
        self._thread.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.__exit__(kind, fault, trace)

    def __call__(self, ranges: DataFrame, number: int) -> None:
        """Take one batch in. A batch that was interrupted may be given again under its number."""
        batch = Batch(self._app, number)
        written = self._write(ranges)
        # Only an index that has all earlier batches knows which events are new.
        self.settle()
        repeated = self._repeated(written.changes, str(batch))
        if repeated:
            # Rare, so written first and checked afterwards: asking before would cost every batch a pass of its own.
            self._lake.discard(written.files)
            written.discard()
            written = self._write(ranges, repeated)
        superfluous = self._commit(written.files, batch)
        self._thread.apply(str(batch), written.changes, Aside(written.aside))
        self._lake.discard(superfluous)
        self._count(written.files, len(repeated))

    def settle(self) -> None:
        """Wait until the index has all batches that were given so far."""
        self._thread.settle()

    def _write(self, ranges: DataFrame, skipped: frozenset[int] = frozenset()) -> Told:
        worker = EventWorker(str(self._lake.root), skipped, self._index.dictionary, self._raw_spans, self._order)
        return write_events(ranges, worker)

    def _repeated(self, changes: Changes, batch: str) -> frozenset[int]:
        """The events, by `seq`, that are in the lake already or stand in this batch before.

        One that was rejected before is none if it can be read now: so dead letters are taken in after a mend.
        """
        told = ((changes.events, False), (changes.rejected, True))
        arrivals = sorted((*event, is_rejected) for events, is_rejected in told for event in events)
        taken = self._index.known([identity for _, identity, _ in arrivals], batch)
        rejected = self._index.known([identity for _, identity in changes.rejected], batch, "rejected")
        repeated = set()
        for seq, identity, is_rejected in arrivals:
            if identity in taken or (is_rejected and identity in rejected):
                repeated.add(seq)
            (rejected if is_rejected else taken).add(identity)
        return frozenset(repeated)

    def _commit(self, files: list[DataFile], batch: Batch) -> list[DataFile]:
        """Commit table by table; gives the files of tables that this batch had reached before a crash."""
        superfluous = []
        for table in EVENT_TABLES:
            own = [file for file in files if file.table == table.name]
            if own and not self._lake.append(table.name, table.schema, own, batch):
                superfluous += own
        return superfluous

    def _count(self, files: list[DataFile], repeated: int) -> None:
        self.taken.batches += 1
        self.taken.repeated += repeated
        for file in files:
            self.taken.rows[file.table] = self.taken.rows.get(file.table, 0) + file.rows
        self.taken.rejected = self.taken.rows.get("rejected_events", 0)
        self.taken.events = sum(self.taken.rows.get(table, 0) for table in ONE_ROW_PER_EVENT) - self.taken.rejected
