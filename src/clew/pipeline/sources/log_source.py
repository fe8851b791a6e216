"""Spark data source of the event log, for batch and streaming reads. Its rows are byte ranges.

Events do not pass through the JVM: a worker reads the range from the segment itself. Moving 6.5 KB of text into the JVM
and back cost as much as decoding it.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import astuple
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from clew.eventlog.segments import SegmentRange, end_position, split_ranges

if TYPE_CHECKING:
    from clew.kafka.consumer import OffsetRange

FORMAT_NAME = "clew_log"
# Changes are merged per task before they reach the index, which has 40 % more work with tasks of 16 MB. The overhead
# of Spark and the commits does not depend on the size of a batch.
MAX_BYTES_PER_TASK = 128 << 20
# Not worth a second task below this.
_MIN_BYTES_PER_TASK = 1 << 20
_MAX_OFFSET = 1 << 62
_COLUMNS = "path string, base bigint, start bigint, end bigint"


class RangesPartition(InputPartition):
    """Ranges that one task reads."""

    def __init__(self, parts: Sequence[SegmentRange | OffsetRange]) -> None:
        super().__init__(parts)
        self.parts = parts


class RangeReader:
    """Returns the ranges of a task as rows."""

    def read(self, partition: InputPartition) -> Iterator[tuple[str | int, ...]]:
        """Yield the ranges."""
        assert isinstance(partition, RangesPartition)  # noqa: S101  # returned by `partitions`
        return map(astuple, partition.parts)


class LogSource(DataSource):
    """`spark.read.format("clew_log").load(folder)`, and the same with `readStream`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._folder = Path(options["path"])
        self._cores = int(options.get("cores", 1))
        self._bytes_per_trigger = int(options.get("bytesPerTrigger", self._cores * MAX_BYTES_PER_TASK))

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT_NAME

    def schema(self) -> str:
        """Return the columns of a byte range."""
        return _COLUMNS

    def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002
        """Read the log, or the part of it between the options `start` and `end`."""
        start, end = (int(self.options.get(name, fallback)) for name, fallback in (("start", 0), ("end", _MAX_OFFSET)))
        return _LogReader(self._folder, self._cores, start, end)

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802, ARG002
        """Stream the log from the last offset on."""
        return _LogStreamReader(self._folder, self._cores, self._bytes_per_trigger)


class _LogReader(RangeReader, DataSourceReader):
    def __init__(self, folder: Path, cores: int, start: int, end: int) -> None:
        self._folder, self._cores = folder, cores
        self._start, self._end = start, end

    def partitions(self) -> Sequence[InputPartition]:
        return _partitions(self._folder, self._cores, self._start, min(self._end, end_position(self._folder)))


class _LogStreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, folder: Path, cores: int, bytes_per_trigger: int) -> None:
        self._folder = folder
        self._cores = cores
        self._bytes_per_trigger = bytes_per_trigger
        self._target: int | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = end_position(self._folder)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"position": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._bytes_per_trigger)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        end = end_position(self._folder) if self._target is None else self._target
        if isinstance(limit, ReadMaxBytes):
            end = min(end, start["position"] + limit.max_bytes)
        return {"position": max(end, start["position"])}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"position": end_position(self._folder)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return _partitions(self._folder, self._cores, start["position"], end["position"])


def _partitions(folder: Path, cores: int, start: int, end: int) -> Sequence[InputPartition]:
    """Split a range into tasks of equal size: one per core, fewer if they are small, more if they are too large."""
    size = max(0, end - start)
    count = max(ceil(size / MAX_BYTES_PER_TASK), min(cores, ceil(size / _MIN_BYTES_PER_TASK)))
    step = ceil(size / max(1, count))
    tasks = (split_ranges(folder, offset, min(offset + step, end), step) for offset in range(start, end, max(1, step)))
    return [RangesPartition(parts) for parts in tasks if parts]
