"""What workers tell the driver: the files that they wrote, and what their events change in the index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from clew.index.changes import Changes
from clew.lake.files import DataFile


class Told(msgspec.Struct):
    """One report of one worker."""

    files: list[DataFile] = msgspec.field(default_factory=list)
    changes: Changes = msgspec.field(default_factory=Changes)


TOLD = StructType([StructField("report", BinaryType())])
_TOLD_ARROW = pa.schema([("report", pa.binary())])
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Told).decode


def telling(reports: Iterable[Told]) -> Iterator[pa.RecordBatch]:
    """Reports as rows, on the worker."""
    for report in reports:
        yield pa.RecordBatch.from_pydict({"report": [_encode(report)]}, schema=_TOLD_ARROW)


def told(reports: DataFrame) -> Told:
    """All reports in one, on the driver."""
    parts = [_decode(report) for report in reports.toArrow()["report"].to_pylist()]
    return Told([file for part in parts for file in part.files], Changes.joined(part.changes for part in parts))
