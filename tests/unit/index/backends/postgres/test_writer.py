"""Tests of concurrent and killed writers of an index in PostgreSQL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from clew.data_dir import DatabaseUrl
from clew.index.changes import ChangeSet, JobRow
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter

# Apply the first half of a batch and wait to be killed.
HALF_A_BATCH = """
import sys
from pathlib import Path
from clew.data_dir import DatabaseUrl
from clew.index.changes import ChangeSet, JobRow
from clew.index.writer import IndexWriter

def second_half():
    print("half", flush=True)
    sys.stdin.read()
    yield ChangeSet()

with IndexWriter(DatabaseUrl(sys.argv[1], Path(sys.argv[2]))) as index_writer:
    changes = ChangeSet(events=[(1, "e0")], jobs=[JobRow("n", "killed", 1, 1, 1, 1)])
    index_writer.apply("app/0", changes, second_half())
"""


@pytest.fixture
def index(postgres_schemas: Any) -> DatabaseUrl:
    location: DatabaseUrl = postgres_schemas.empty("writers")
    return location


def job(name: str, seq: int) -> JobRow:
    return JobRow("n", name, first_event_at=seq, last_event_at=seq, first_seq=seq, last_seq=seq)


def test_killed_writer_is_rolled_back_and_releases_its_lock(index: DatabaseUrl) -> None:
    command = [sys.executable, "-c", HALF_A_BATCH, index.text, str(index.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        os.kill(process.pid, signal.SIGKILL)
    with IndexWriter(index) as index_writer, IndexReader(index) as reader:
        index_writer.apply("app/1", ChangeSet(events=[(2, "f0")], jobs=[job("whole", 2)]))
        assert index_writer.event_count == 1
        assert [row["name"] for row in reader.query("select name from jobs")] == ["whole"]


def test_concurrent_writers_do_not_deadlock(index: DatabaseUrl) -> None:
    """Each batch updates the same rows in another order, which deadlocks without a lock."""
    names = [f"job {number}" for number in range(20)]

    def write(writer: int) -> None:
        with IndexWriter(index) as index_writer:
            for batch in range(5):
                seq = 10 * batch + writer
                rows = [job(name, seq) for name in (names if writer % 2 else reversed(names))]
                index_writer.apply(f"app {writer}/{batch}", ChangeSet(events=[(seq, f"{seq:032x}")], jobs=rows))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    with IndexReader(index) as reader:
        assert {(row["first_seq"], row["last_seq"]) for row in reader.query("select * from jobs")} == {(0, 42)}
        assert reader.version().indexed_seq == 42
