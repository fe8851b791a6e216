"""Reports of Spark tasks to the driver: files written and index changes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from clew.index.changes import ChangeSet
from clew.lake.data_files import DataFile
from clew.lake.lake import WORKER_REPORTS_DIR
from clew.lake.storage import Storage, open_storage

T = TypeVar("T")
Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class WorkerReport(msgspec.Struct):
    """Report of a task. `spilled` are paths of further change sets, read when they are written to the index.

    `corrupt_records` is the number of damaged records of the log.
    """

    files: list[DataFile] = msgspec.field(default_factory=list)
    changes: ChangeSet = msgspec.field(default_factory=ChangeSet)
    spilled: list[str] = msgspec.field(default_factory=list)
    corrupt_records: int = 0

    def delete_spilled(self) -> None:
        """Delete the spilled change sets."""
        for path in self.spilled:
            reports, name = _locate(path)
            reports.remove(name)


# Reports are passed as files: through the JVM, they cost three times as much and fill its heap.
REPORT_SCHEMA = StructType([StructField("path", StringType())])
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WorkerReport).decode
_decode_changes = msgspec.msgpack.Decoder(ChangeSet).decode


def encode_report(report: WorkerReport, root: str) -> pa.RecordBatch:
    """Write the report of a task to a file; return its path as an Arrow row, or no row if the report is empty."""
    paths = [] if report == WorkerReport() else [_write_report_file(_encode(report), root)]
    return pa.RecordBatch.from_pydict({"path": pa.array(paths, pa.string())})


def collect_reports(reports: DataFrame) -> WorkerReport:
    """Collect and merge all reports on the driver."""
    decoded = [_decode(_pop_report_file(path)) for path in reports.toArrow()["path"].to_pylist()]
    return WorkerReport(
        [file for report in decoded for file in report.files],
        ChangeSet.concat(report.changes for report in decoded),
        [path for report in decoded for path in report.spilled],
        sum(report.corrupt_records for report in decoded),
    )


class SpilledChanges:
    """Iterates over spilled change sets once, one at a time."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[ChangeSet]:
        return (_decode_changes(_pop_report_file(path)) for path in self._paths)


def spill_changes(report: WorkerReport, changes: ChangeSet, root: str) -> None:
    """Spill a large change set to a file, and add its event ids to the report."""
    report.changes.events += changes.events
    report.changes.rejected += changes.rejected
    changes.events, changes.rejected = [], []
    report.spilled.append(_write_report_file(_encode(changes), root))


def run_tasks(spark: SparkSession, worker: Worker, count: int) -> WorkerReport:
    """Run a worker with `count` tasks and collect its reports; input rows are task indices."""
    return collect_reports(spark.range(0, count, 1, count).mapInArrow(worker, REPORT_SCHEMA))


def tasks_of(batches: Iterable[pa.RecordBatch], tasks: Sequence[T]) -> Iterator[T]:
    """Yield the tasks with the indices in the rows."""
    for batch in batches:
        yield from (tasks[index] for index in batch.column(0).to_pylist())


def _write_report_file(data: bytes, root: str) -> str:
    name = f"{WORKER_REPORTS_DIR}/{uuid.uuid4().hex}"
    open_storage(root).add(name, data)
    return f"{root}/{name}"


def _pop_report_file(path: str) -> bytes:
    reports, name = _locate(path)
    data = reports.read(name)
    if data is None:
        raise FileNotFoundError(path)
    reports.remove(name)
    return data


def _locate(path: str) -> tuple[Storage, str]:
    folder, _, name = path.rpartition("/")
    return open_storage(folder), name
