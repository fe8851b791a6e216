"""What workers tell the driver: the files that they wrote, and what their events change in the index."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from clew.index.changes import Changes
from clew.lake.delta import REPORTS
from clew.lake.files import DataFile
from clew.lake.storage import Storage, storage_at

T = TypeVar("T")
Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Told(msgspec.Struct):
    """One report of one worker. `aside` names files with more changes, which are opened when the index takes them."""

    files: list[DataFile] = msgspec.field(default_factory=list)
    changes: Changes = msgspec.field(default_factory=Changes)
    aside: list[str] = msgspec.field(default_factory=list)

    def discard(self) -> None:
        """Remove what was put aside."""
        for path in self.aside:
            reports, name = _found(path)
            reports.remove(name)


TOLD = StructType([StructField("report", BinaryType()), StructField("path", StringType())])
_TOLD_ARROW = pa.schema([("report", pa.binary()), ("path", pa.string())])
# What is longer goes by way of a file beside the tables: through the JVM it costs three times as much.
_LONG_BYTES = 64 << 10
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Told).decode
_decode_changes = msgspec.msgpack.Decoder(Changes).decode


def telling(reports: Iterable[Told], root: str) -> Iterator[pa.RecordBatch]:
    """Reports as rows, on a worker that writes below `root`."""
    for report in reports:
        text = _encode(report)
        row = (None, _put_down(text, root)) if len(text) > _LONG_BYTES else (text, None)
        yield pa.RecordBatch.from_pylist([dict(zip(_TOLD_ARROW.names, row, strict=True))], schema=_TOLD_ARROW)


def told(reports: DataFrame) -> Told:
    """All reports in one, on the driver."""
    rows = reports.toArrow().to_pylist()
    parts = [_decode(_take_up(row["path"]) if row["report"] is None else row["report"]) for row in rows]
    return Told(
        [file for part in parts for file in part.files],
        Changes.joined(part.changes for part in parts),
        [path for part in parts for path in part.aside],
    )


class Aside:
    """Changes that were put aside: opened one by one, once."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[Changes]:
        return (_decode_changes(_take_up(path)) for path in self._paths)


def put_aside(changes: Changes, root: str) -> Told:
    """A report of changes that are too large to be held together with others: only who they are of is told at once."""
    told = Told(changes=Changes(events=changes.events, rejected=changes.rejected))
    changes.events, changes.rejected = [], []
    told.aside.append(_put_down(_encode(changes), root))
    return told


def told_of_parts(spark: SparkSession, worker: Worker, count: int) -> Told:
    """What a worker tells of so many parts, a task for each; rows name them by their place."""
    return told(spark.range(0, count, 1, count).mapInArrow(worker, TOLD))


def named_by(places: Iterable[pa.RecordBatch], parts: Sequence[T]) -> Iterator[T]:
    """The parts that rows name, on a worker."""
    for batch in places:
        yield from (parts[place] for place in batch.column(0).to_pylist())


def _put_down(text: bytes, root: str) -> str:
    name = f"{REPORTS}/{uuid.uuid4().hex}"
    storage_at(root).add(name, text)
    return f"{root}/{name}"


def _take_up(path: str) -> bytes:
    reports, name = _found(path)
    text = reports.read(name)
    if text is None:
        raise FileNotFoundError(path)
    reports.remove(name)
    return text


def _found(path: str) -> tuple[Storage, str]:
    folder, _, name = path.rpartition("/")
    return storage_at(folder), name
