"""Whenever the pipeline dies, it resumes where it stopped: nothing is lost, nothing stands there twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import Record, append, event, log_size, record, run

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake

EVENTS = 60
BATCHES = 3
# When the log took an event differs from home to home.
ARRIVAL = ("received_at", "created_at")


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Record:
    home = filled(tmp_path_factory.mktemp("undisturbed"))
    run(home, spark, bytes_per_trigger(home), is_derived=False)
    return record(home, *ARRIVAL)


@pytest.mark.parametrize("call", range(1, 10))
def test_an_interruption_between_commits(
    call: int, spark: SparkSession, tmp_path: Path, undisturbed: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = filled(tmp_path)
    with failing_at(call, monkeypatch), pytest.raises(ClewError, match="it resumes where it stopped"):
        run(home, spark, bytes_per_trigger(home), is_derived=False)
    run(home, spark, bytes_per_trigger(home), is_derived=False)
    assert record(home, *ARRIVAL) == undisturbed


@contextmanager
def failing_at(call: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Die before the n-th write to a table or to the index."""
    left = [call]

    def failing(write: object) -> object:
        def wrapped(*arguments: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise OSError("the machine went down")
            return write(*arguments)  # type: ignore[operator]

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "append", failing(Lake.append))
        patch.setattr(IndexWriter, "apply", failing(IndexWriter.apply))
        yield


def filled(root: Path) -> DataDir:
    home = DataDir(root)
    append(home, *map(event, range(EVENTS)))
    append(home, *(event(number, "again") for number in range(0, EVENTS, 7)))
    append(home, b"no event")
    return home


def bytes_per_trigger(home: DataDir) -> int:
    return log_size(home.log) // BATCHES + 1
