"""Several who write one index, and one who is killed while writing."""

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

# Applies a batch, of which the second half does not come before it is killed.
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

with IndexWriter(DatabaseUrl(sys.argv[1], Path(sys.argv[2]))) as sink:
    changes = ChangeSet(events=[(1, "e0")], jobs=[JobRow("n", "killed", 1, 1, 1, 1)])
    sink.apply("app/0", changes, second_half())
"""


@pytest.fixture
def index(postgres_places: Any) -> DatabaseUrl:
    place: DatabaseUrl = postgres_places.empty("writers")
    return place


def job(name: str, seq: int) -> JobRow:
    return JobRow("n", name, first_event_at=seq, last_event_at=seq, first_seq=seq, last_seq=seq)


def test_a_writer_that_is_killed_leaves_nothing_and_holds_no_one_up(index: DatabaseUrl) -> None:
    command = [sys.executable, "-c", HALF_A_BATCH, index.text, str(index.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        os.kill(writer.pid, signal.SIGKILL)
    with IndexWriter(index) as sink, IndexReader(index) as reader:
        sink.apply("app/1", ChangeSet(events=[(2, "f0")], jobs=[job("whole", 2)]))
        assert sink.event_count == 1
        assert [row["name"] for row in reader.query("select name from jobs")] == ["whole"]


def test_writers_take_turns(index: DatabaseUrl) -> None:
    """Each batch touches the same rows, in another order: without a lock they would wait for each other for ever."""
    names = [f"job {number}" for number in range(20)]

    def write(writer: int) -> None:
        with IndexWriter(index) as sink:
            for batch in range(5):
                seq = 10 * batch + writer
                rows = [job(name, seq) for name in (names if writer % 2 else reversed(names))]
                sink.apply(f"app {writer}/{batch}", ChangeSet(events=[(seq, f"{seq:032x}")], jobs=rows))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    with IndexReader(index) as reader:
        assert {(row["first_seq"], row["last_seq"]) for row in reader.query("select * from jobs")} == {(0, 42)}
        assert reader.version().indexed_seq == 42
