"""The log as a source of Spark: its rows are byte ranges, read as a batch or as a stream by so many bytes a time.

Events themselves do not pass through the JVM. A worker opens the segment and reads the range that its row names:
moving 6.5 KB of text into the JVM and out again cost as much as taking it apart.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import astuple
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from clew.collector.segments import Range, end_position, ranges

NAME = "clew_log"
BYTES_PER_TRIGGER = 64 << 20
_BYTES_PER_TASK = 16 << 20
_NO_END = 1 << 62
_COLUMNS = "path string, base bigint, start bigint, end bigint"


class _RangePartition(InputPartition):
    def __init__(self, part: Range) -> None:
        super().__init__(part)
        self.part = part


class LogSource(DataSource):
    """`spark.read.format("clew_log").load(folder)`, and the same with `readStream`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._folder = Path(options["path"])
        self._bytes_per_trigger = int(options.get("bytesPerTrigger", BYTES_PER_TRIGGER))

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def schema(self) -> str:
        """The columns of a byte range."""
        return _COLUMNS

    def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002
        """All that the log holds now, or the part of it between the options `start` and `end`."""
        return _LogReader(self._folder, int(self.options.get("start", 0)), int(self.options.get("end", _NO_END)))

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802, ARG002
        """What the log holds beyond the last offset."""
        return _LogStreamReader(self._folder, self._bytes_per_trigger)


class _LogReader(DataSourceReader):
    def __init__(self, folder: Path, start: int, end: int) -> None:
        self._folder = folder
        self._start = start
        self._end = end

    def partitions(self) -> Sequence[InputPartition]:
        return _partitions(self._folder, self._start, min(self._end, end_position(self._folder)))

    def read(self, partition: InputPartition) -> Iterator[tuple[str | int, ...]]:
        return _read(partition)


class _LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, folder: Path, bytes_per_trigger: int) -> None:
        self._folder = folder
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
        return _partitions(self._folder, start["position"], end["position"])

    def read(self, partition: InputPartition) -> Iterator[tuple[str | int, ...]]:
        return _read(partition)


def _partitions(folder: Path, start: int, end: int) -> Sequence[InputPartition]:
    return [_RangePartition(part) for part in ranges(folder, start, end, _BYTES_PER_TASK)]


def _read(partition: InputPartition) -> Iterator[tuple[str | int, ...]]:
    assert isinstance(partition, _RangePartition)  # noqa: S101  # Spark hands back what `partitions` gave
    yield astuple(partition.part)
