"""Tests of FileWriter: rows are written to files by size."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clew.lake.data_files import FileWriter, read_batches
from clew.lake.storage import LocalStorage


def batch(*texts: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"key": list(range(len(texts))), "body": list(texts)})


def writer(root: Path, flush_bytes: int = 1000) -> FileWriter:
    return FileWriter(str(root), {"events": frozenset({"body"})}, flush_bytes=flush_bytes)


def test_writes_a_file_when_the_flush_size_is_reached(tmp_path: Path) -> None:
    file_writer = writer(tmp_path)
    assert list(file_writer.add({"events": batch("small"), "other": batch()})) == []
    (first,) = file_writer.add({"events": batch("x" * 1000)})
    assert list(file_writer.flush()) == []
    (path,) = (tmp_path / "events").iterdir()
    assert (first.table, first.name, first.rows, first.size) == ("events", path.name, 2, path.stat().st_size)
    assert pq.read_table(path)["body"].to_pylist() == ["small", "x" * 1000]
    assert not (tmp_path / "other").exists()


def test_writes_one_file_per_table(tmp_path: Path) -> None:
    file_writer = writer(tmp_path)
    assert list(file_writer.add({"events": batch("a"), "other": batch("b", "c")})) == []
    assert sorted((file.table, file.rows) for file in file_writer.flush()) == [("events", 1), ("other", 2)]


def test_large_columns_have_no_statistics_and_no_dictionary(tmp_path: Path) -> None:
    file_writer = writer(tmp_path, flush_bytes=0)
    (file,) = file_writer.add({"events": batch("a", "b")})
    columns = pq.ParquetFile(tmp_path / "events" / file.name).metadata.row_group(0)
    key, body = columns.column(0), columns.column(1)
    assert key.statistics is not None
    assert key.statistics.has_min_max
    assert body.statistics is None
    assert "body" not in file.stats
    assert not any("DICTIONARY" in encoding for encoding in body.encodings)


def test_large_rows_are_written_to_separate_row_groups(tmp_path: Path) -> None:
    file_writer = writer(tmp_path, flush_bytes=1 << 40)
    assert (
        list(file_writer.add({"events": batch(*("x" * (5 << 20),) * 3), "other": batch("small", "y" * 100_000)})) == []
    )
    files = {file.table: pq.ParquetFile(tmp_path / file.table / file.name) for file in file_writer.flush()}
    assert {name: file.metadata.num_row_groups for name, file in files.items()} == {"events": 3, "other": 1}
    assert files["events"].read()["key"].to_pylist() == [0, 1, 2]


class SmallDisk(io.BytesIO):
    """A disk with space for the first 100 bytes of a file."""

    def write(self, content: Any) -> int:
        if self.tell() + len(content) > 100:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(content)


def test_reports_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStorage, "write_parquet", lambda _folder, _name, write: write(SmallDisk()))
    file_writer = writer(tmp_path)
    with pytest.raises(OSError, match="No space left on device"):
        list(file_writer.add({"events": batch("x" * 1000)}))


def test_reads_the_columns_of_a_schema_in_its_order(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict(
        {"id": ["a", "b", "c"], "count": pa.array([1, 2, 3], pa.int32()), "old": [1, 2, 3]}
    )
    (file,) = [*(file_writer := writer(tmp_path)).add({"events": rows}), *file_writer.flush()]
    schema = pa.schema([("new", pa.list_(pa.string())), ("count", pa.int64()), ("id", pa.string())])
    batches = list(read_batches(f"{tmp_path}/events/{file.name}", schema, 2))
    assert [batch.num_rows for batch in batches] == [2, 1]
    assert all(batch.schema == schema for batch in batches)
    assert pa.Table.from_batches(batches).to_pylist()[2] == {"new": None, "count": 3, "id": "c"}
    (empty,) = read_batches(f"{tmp_path}/events/{file.name}", pa.schema([("new", pa.string())]))
    assert empty.num_rows == 3
