"""Tests that an interrupted pipeline resumes without lost or duplicate events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import TableRows, append_events, log_size, make_event, read_tables, run_pipeline

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake

EVENT_COUNT = 60
BATCH_COUNT = 3
# Times of arrival differ between data directories.
ARRIVAL_COLUMNS = ("received_at", "created_at")


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableRows:
    home = create_home(tmp_path_factory.mktemp("uninterrupted"))
    run_pipeline(home, spark, bytes_per_trigger(home), is_derived=False)
    return read_tables(home, *ARRIVAL_COLUMNS)


@pytest.mark.parametrize("call", range(1, 10))
def test_resumes_after_an_interruption_between_commits(
    call: int, spark: SparkSession, tmp_path: Path, expected: TableRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = create_home(tmp_path)
    with fail_at(call, monkeypatch), pytest.raises(ClewError, match="it resumes where it stopped"):
        run_pipeline(home, spark, bytes_per_trigger(home), is_derived=False)
    run_pipeline(home, spark, bytes_per_trigger(home), is_derived=False)
    assert read_tables(home, *ARRIVAL_COLUMNS) == expected


@contextmanager
def fail_at(call: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Raise an error before the n-th write to a table or to the index."""
    remaining_calls = [call]

    def count_calls(write: object) -> object:
        def wrapped(*arguments: object) -> object:
            remaining_calls[0] -= 1
            if remaining_calls[0] == 0:
                raise OSError("the machine went down")
            return write(*arguments)  # type: ignore[operator]

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "append", count_calls(Lake.append))
        patch.setattr(IndexWriter, "apply", count_calls(IndexWriter.apply))
        yield


def create_home(root: Path) -> DataDir:
    home = DataDir(root)
    append_events(home, *map(make_event, range(EVENT_COUNT)))
    append_events(home, *(make_event(number, "again") for number in range(0, EVENT_COUNT, 7)))
    append_events(home, b"no event")
    return home


def bytes_per_trigger(home: DataDir) -> int:
    return log_size(home.log) // BATCH_COUNT + 1
