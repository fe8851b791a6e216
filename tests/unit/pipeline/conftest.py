"""A pipeline without Spark: batches of the log, taken in by the very code that runs on workers and driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Self

import pyarrow as pa
import pytest

from clew.data_dir import DataDir
from clew.eventlog.segments import SegmentRange, end_position, split_ranges
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.ingest import BatchIngestor, IngestStats

Take = Callable[..., IngestStats]


class Ranges:
    """Stands in for a DataFrame of byte ranges: what is mapped over it is called in this process."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._batches = batches

    @classmethod
    def of(cls, parts: list[SegmentRange]) -> Self:
        return cls([pa.RecordBatch.from_pylist([asdict(part)]) for part in parts])

    def mapInArrow(  # noqa: N802  # as Spark names it
        self, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], _: object
    ) -> Ranges:
        return Ranges(list(work(iter(self._batches))))

    def toArrow(self) -> pa.Table:  # noqa: N802  # as Spark names it
        return pa.Table.from_batches(self._batches)


@pytest.fixture
def home(tmp_path: Any) -> DataDir:
    """A home with an empty lake."""
    made = DataDir(tmp_path / "home").create()
    Lake(made.lake).create_or_validate()
    return made


@pytest.fixture
def take(home: DataDir) -> Take:
    """Takes in what the log holds beyond a position, as a batch of its own or as one that was interrupted."""
    last = -1

    def taken(start: int = 0, *, is_again: bool = False) -> IngestStats:
        nonlocal last
        last += not is_again
        parts: Any = Ranges.of(split_ranges(home.log, start, end_position(home.log), 1 << 20))
        with IndexWriter(home.index) as index, BatchIngestor(Lake(home.lake), index, "app") as ingest:
            ingest(parts, last)
        return ingest.stats

    return taken
