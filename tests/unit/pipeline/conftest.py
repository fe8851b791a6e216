"""Fixtures of a pipeline without Spark: the code of workers and driver runs in this process."""

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

IngestLog = Callable[..., IngestStats]


class LocalRanges:
    """In-process stand-in for a DataFrame of byte ranges."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._batches = batches

    @classmethod
    def from_ranges(cls, ranges: list[SegmentRange]) -> Self:
        return cls([pa.RecordBatch.from_pylist([asdict(range_)]) for range_ in ranges])

    def mapInArrow(  # noqa: N802  # Spark's name
        self, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], _: object
    ) -> LocalRanges:
        return LocalRanges(list(function(iter(self._batches))))

    def toArrow(self) -> pa.Table:  # noqa: N802  # Spark's name
        return pa.Table.from_batches(self._batches)


@pytest.fixture
def home(tmp_path: Any, request: pytest.FixtureRequest) -> DataDir:
    """Create a data directory with an empty lake; the parameter `bucket` puts the lake in a bucket."""
    bucket = request.getfixturevalue("bucket") if getattr(request, "param", None) == "bucket" else None
    data_dir = DataDir(tmp_path / "home", external_lake=bucket).create()
    Lake(data_dir.lake).create_or_validate()
    return data_dir


@pytest.fixture
def ingest_log(home: DataDir) -> IngestLog:
    """Return a function that ingests the log from a position on, as a new batch or as a retry."""
    batch_id = -1

    def run(start: int = 0, *, is_retry: bool = False) -> IngestStats:
        nonlocal batch_id
        batch_id += not is_retry
        ranges: Any = LocalRanges.from_ranges(split_ranges(home.log, start, end_position(home.log), 1 << 20))
        with IndexWriter(home.index) as index, BatchIngestor(Lake(home.lake), index, "app") as ingestor:
            ingestor(ranges, batch_id)
        return ingestor.stats

    return run
