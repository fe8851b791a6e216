"""Tests that an interrupted pipeline resumes without lost or duplicate events."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import TableRows, append_events, log_size, make_event, read_tables, run_pipeline

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.repair import repair_lake

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


def last_file(home: DataDir, folder: str) -> Path:
    return max((home.checkpoint / "log" / folder).glob("[0-9]*"), key=lambda path: int(path.name))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def damage_all_offsets(home: DataDir) -> None:
    for path in (home.checkpoint / "log" / "offsets").glob("[0-9]*"):
        path.write_bytes(bytes(100))


def damage_offsets_and_plan(home: DataDir) -> None:
    truncate(last_file(home, "offsets"))
    (home.checkpoint / "batch.json").write_bytes(b"")


def flip_position(home: DataDir) -> None:
    path = last_file(home, "offsets")
    text = path.read_bytes()
    path.write_bytes(text[:-3] + bytes([text[-3] ^ 1]) + text[-2:])


CHECKPOINT_DAMAGES: dict[str, Callable[[DataDir], object]] = {
    "truncated offset": lambda home: truncate(last_file(home, "offsets")),
    "empty offset": lambda home: last_file(home, "offsets").write_bytes(b""),
    "garbage offset": lambda home: last_file(home, "offsets").write_bytes(b"\xff\x00 garbage"),
    "missing offset": lambda home: last_file(home, "offsets").unlink(),
    "flipped position": flip_position,
    "all offsets": damage_all_offsets,
    "truncated commit": lambda home: truncate(last_file(home, "commits")),
    "empty commit": lambda home: last_file(home, "commits").write_bytes(b""),
    "missing commits": lambda home: shutil.rmtree(home.checkpoint / "log" / "commits"),
    "empty metadata": lambda home: (home.checkpoint / "log" / "metadata").write_bytes(b""),
    "missing metadata": lambda home: (home.checkpoint / "log" / "metadata").unlink(),
    "missing application id": lambda home: (home.checkpoint / "app").unlink(),
    "zeroed application id": lambda home: (home.checkpoint / "app").write_bytes(bytes(41)),
    "other application id": lambda home: (home.checkpoint / "app").write_text("clew-x"),
    "missing folder": lambda home: shutil.rmtree(home.checkpoint / "log"),
    "garbage ranges": lambda home: (home.checkpoint / "raw_only_ranges.json").write_bytes(b"\0"),
}


@pytest.mark.parametrize("call", [8])
@pytest.mark.parametrize("damage", CHECKPOINT_DAMAGES)
def test_repairs_the_checkpoint_after_an_interruption(
    damage: str, call: int, spark: SparkSession, tmp_path: Path, expected: TableRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = create_home(tmp_path)
    with fail_at(call, monkeypatch), pytest.raises(ClewError, match="it resumes where it stopped"):
        run_pipeline(home, spark, bytes_per_trigger(home), is_derived=False)
    CHECKPOINT_DAMAGES[damage](home)
    run_pipeline(home, spark, bytes_per_trigger(home), is_derived=False)
    assert read_tables(home, *ARRIVAL_COLUMNS) == expected


@pytest.mark.parametrize("damage", ["truncated offset", "missing folder", "plan"])
def test_repairs_the_checkpoint_between_runs(
    damage: str, spark: SparkSession, tmp_path: Path, expected: TableRows
) -> None:
    home = create_home(tmp_path)
    run_pipeline(home, spark, bytes_per_trigger(home), is_derived=False)
    {**CHECKPOINT_DAMAGES, "plan": damage_offsets_and_plan}[damage](home)
    run_pipeline(home, spark, bytes_per_trigger(home), is_derived=False)
    assert read_tables(home, *ARRIVAL_COLUMNS) == expected
    append_events(home, make_event(EVENT_COUNT))
    with open_pipeline(home, spark=spark) as pipeline:
        assert pipeline.ingest_available().events == 1


def test_repairs_tables_index_and_checkpoint(spark: SparkSession, tmp_path: Path, expected: TableRows) -> None:
    home = create_home(tmp_path)
    run_pipeline(home, spark, bytes_per_trigger(home), is_derived=False)
    truncate(next((home.lake_folder / "lineage_events").glob("*.parquet")))
    for table in ("dataset_facets", "run_facets"):
        max((home.lake_folder / table / "_delta_log").glob("*.json")).write_bytes(b"")
    damage_offsets_and_plan(home)
    home.index_file.write_bytes(b"garbage" * 1000)
    assert {repair.lost for repair in repair_lake(home)} == {None}
    run_pipeline(home, spark, bytes_per_trigger(home), is_derived=False)
    assert read_tables(home, *ARRIVAL_COLUMNS) == expected
    append_events(home, make_event(EVENT_COUNT))
    with open_pipeline(home, spark=spark) as pipeline:
        assert pipeline.ingest_available().events == 1
