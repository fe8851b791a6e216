"""The work on a part of a chunk: raw events are opened as if they had just come, for the facet tables and the index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from clew.events.facet_order import FacetOrder
from clew.index.observer import Observer
from clew.lake.files import FileWriter
from clew.lake.lineage_rows import LineageRows
from clew.lake.raw_only import Chunk, opened, raw_events_in
from clew.lake.tables import LARGE_COLUMNS, LINEAGE_EVENTS
from clew.pipeline.telling import Told, named_by, telling
from clew.pipeline.worker import BYTES_PER_BATCH


class BackfillWorker:
    """Writes the facets of raw events below `root`. Rows name parts by their place in `parts`."""

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

    def __call__(self, places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function for `mapInArrow`."""
        return telling(self._reports(places), self._root)

    def _reports(self, places: Iterator[pa.RecordBatch]) -> Iterator[Told]:
        for part in named_by(places, self._parts):
            yield from self._fill(part)

    def _fill(self, part: Chunk) -> Iterator[Told]:
        # An observer for each part: it expects events in the order received.
        writer, observer = FileWriter(self._root, LARGE_COLUMNS), Observer(self._dictionary, self._order)
        for rows in self._batches(part, observer):
            yield Told(files=list(writer.add(rows)))
        changes = observer.changes()
        # The index knows them since they were taken in.
        changes.events = []
        yield Told(files=list(writer.flush()), changes=changes)

    def _batches(self, part: Chunk, observer: Observer) -> Iterator[dict[str, pa.RecordBatch]]:
        rows, held = LineageRows(), 0
        for event, arrival in opened(raw_events_in(self._root, self._files, part)):
            rows.add(event, arrival)
            observer.note(event, arrival.event_id, arrival.seq)
            held += len(arrival.body)
            if held >= BYTES_PER_BATCH:
                yield _facets(rows)
                held = 0
        yield _facets(rows)


def _facets(rows: LineageRows) -> dict[str, pa.RecordBatch]:
    return {name: batch for name, batch in rows.batches().items() if name != LINEAGE_EVENTS.name}
