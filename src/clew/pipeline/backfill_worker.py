"""Spark task of a backfill: decode raw-only events, write their facets and extract the index changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from clew.events.facet_order import FacetOrder
from clew.index.observer import ChangeExtractor
from clew.lake.files import FileWriter
from clew.lake.lineage_rows import LineageTableBuilder
from clew.lake.raw_only import Chunk, decode_raw_events, read_chunk
from clew.lake.tables import LARGE_COLUMNS, LINEAGE_EVENTS
from clew.pipeline.telling import WorkerReport, encode_reports, tasks_of
from clew.pipeline.worker import BYTES_PER_BATCH


class BackfillWorker:
    """Writes the facets of raw-only events below `root`. Input rows are indices into `parts`."""

    def __init__(
        self,
        root: str,
        files: Sequence[str],
        parts: Sequence[Chunk],
        dictionary: bytes | None,
        order: FacetOrder = FacetOrder.RECEIVED,
    ) -> None:
        self._root = root
        self._files = files
        self._parts = parts
        self._dictionary = dictionary
        self._order = order

    def __call__(self, task_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as the function of `mapInArrow`."""
        return encode_reports(self._reports(task_batches), self._root)

    def _reports(self, task_batches: Iterator[pa.RecordBatch]) -> Iterator[WorkerReport]:
        for part in tasks_of(task_batches, self._parts):
            yield from self._fill(part)

    def _fill(self, part: Chunk) -> Iterator[WorkerReport]:
        # One per chunk: it expects events in the order received.
        writer, observer = FileWriter(self._root, LARGE_COLUMNS), ChangeExtractor(self._dictionary, self._order)
        for rows in self._batches(part, observer):
            yield WorkerReport(files=list(writer.add(rows)))
        changes = observer.changes()
        # The event ids are in the index since they were ingested.
        changes.events = []
        yield WorkerReport(files=list(writer.flush()), changes=changes)

    def _batches(self, part: Chunk, observer: ChangeExtractor) -> Iterator[dict[str, pa.RecordBatch]]:
        rows, buffered_bytes = LineageTableBuilder(), 0
        for event, received in decode_raw_events(read_chunk(self._root, self._files, part)):
            rows.add(event, received)
            observer.add(event, received.event_id, received.seq)
            buffered_bytes += len(received.body)
            if buffered_bytes >= BYTES_PER_BATCH:
                yield _facets(rows)
                buffered_bytes = 0
        yield _facets(rows)


def _facets(rows: LineageTableBuilder) -> dict[str, pa.RecordBatch]:
    return {name: batch for name, batch in rows.drain().items() if name != LINEAGE_EVENTS.name}
