"""Tests of a lake on an S3 server: rows equal those of a lake in a folder, without duplicates."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import TableRows, append_events, log_size, make_event, read_tables, run_pipeline
from tests.integration.pipeline.test_interruption import fail_at

from clew.data_dir import BucketUrl, DataDir
from clew.errors import ClewError
from clew.lake.facets import load_run_facets, read_facet_history
from clew.lake.lake import WORKER_REPORTS_DIR, Lake
from clew.lake.refresh_state import is_refreshed
from clew.lake.scan import read_run_events
from clew.lake.storage import open_storage
from clew.pipeline.locks import LockedError, acquire_lock
from clew.pipeline.maintenance import run_maintenance
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.reprocess import replay_rejected_events, run_backfill
from clew.pipeline.status import read_status
from clew.query.pages.lists import EventFilter, query_events
from clew.reports.run import REPORTS, write_reports

EVENT_COUNT = 24
BATCH_COUNT = 3
WEEK_HOURS = 7 * 24
# Enough for a large facet and for a spilled worker report.
COLUMN_COUNT = 1_500
HOLD_LOCK = """
import sys
from clew.data_dir import BucketUrl
from clew.lake import bucket
from clew.pipeline.locks import acquire_lock
bucket.LEASE_SECONDS = 2.0
with acquire_lock(BucketUrl(sys.argv[1]) / ".lock"):
    print("acquired", flush=True)
    sys.stdin.read()
"""


def wide_event(number: int) -> bytes:
    fields = {
        f"c{column}": {"inputFields": [{"namespace": "n", "name": "d0", "field": "c"}]}
        for column in range(COLUMN_COUNT)
    }
    body = json.loads(make_event(number))
    body["outputs"][0]["facets"]["columnLineage"]["fields"] = fields
    return json.dumps(body).encode()


@pytest.fixture(scope="module")
def folder_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataDir, TableRows]:
    """Create a data directory with a local lake, and read its rows."""
    home = DataDir(tmp_path_factory.mktemp("folder"))
    append_events(
        home,
        *map(make_event, range(EVENT_COUNT)),
        wide_event(EVENT_COUNT),
        make_event(0, "again"),
        b"no event",
        make_event(0),
    )
    run_pipeline(home, spark, 1 << 24)
    return home, read_tables(home)


@pytest.fixture
def home(folder_lake: tuple[DataDir, TableRows], bucket: BucketUrl, tmp_path: Path) -> DataDir:
    """Create a data directory with the same log, and its lake in a bucket."""
    shutil.copytree(folder_lake[0].log, tmp_path / "home" / "log")
    return DataDir(tmp_path / "home", bucket)


def ingest_in_batches(home: DataDir, spark: SparkSession, *, is_derived: bool = True) -> None:
    run_pipeline(home, spark, log_size(home.log) // BATCH_COUNT + 1, is_derived=is_derived)


@pytest.mark.parametrize("bucket", ["moto", "s3mock", "azurite"], indirect=True)
def test_rows_equal_those_of_a_local_lake(
    home: DataDir, spark: SparkSession, folder_lake: tuple[DataDir, TableRows], tmp_path: Path
) -> None:
    ingest_in_batches(home, spark)
    assert read_tables(home) == folder_lake[1]
    ingest_in_batches(home, spark)
    shutil.rmtree(home.checkpoint)
    ingest_in_batches(home, spark)
    assert read_tables(home) == folder_lake[1], "no duplicates after reading the log again"
    check_same_results(home, folder_lake[0])
    shutil.rmtree(home.checkpoint)
    assert read_status(home).tables == sorted(read_status(home).tables, key=lambda table: table.name)
    result = run_maintenance(home, 0, is_forced=True)
    before, after = result.compacted["lineage_events"]
    assert before > after == 1
    count, size = result.vacuumed["lineage_events"]
    assert count == before
    assert size > 0
    with open_pipeline(home, spark=spark, rebuild=True) as pipeline:
        assert is_refreshed(pipeline.lake)
    assert read_tables(home) == folder_lake[1], "after compaction, vacuum and rebuild of the index"
    assert len(write_reports(home, tmp_path / "reports", tuple(REPORTS)[:2], spark=spark)) == 2
    assert list(open_storage(home.lake / WORKER_REPORTS_DIR).list_files()) == []


def check_same_results(home: DataDir, local_home: DataDir) -> None:
    bucket_lake, local_lake = Lake(home.lake), Lake(local_home.lake)
    assert load_run_facets(bucket_lake, "run-0") == load_run_facets(local_lake, "run-0")
    schema_history, expected_history = (
        read_facet_history(lake, "dataset", ("n", "d1"), "schema") for lake in (bucket_lake, local_lake)
    )
    assert len(schema_history) > 1
    assert schema_history == expected_history
    assert list(read_run_events(bucket_lake, "run-8")) == list(read_run_events(local_lake, "run-8"))
    assert query_events(home.lake, EventFilter()) == query_events(local_home.lake, EventFilter())
    assert replay_rejected_events(home).still_rejected == 1
    status, expected = read_status(home), read_status(local_home)
    assert [(table.name, table.rows) for table in status.tables] == [
        (table.name, table.rows) for table in expected.tables
    ]
    assert (status.rejected, status.pending_backfill_events, status.locked_by) == (expected.rejected, 0, None)
    assert status.batches


@pytest.mark.parametrize("call", [2, 7])
def test_resumes_after_an_interruption_between_commits(
    call: int,
    home: DataDir,
    spark: SparkSession,
    folder_lake: tuple[DataDir, TableRows],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with fail_at(call, monkeypatch), pytest.raises(ClewError, match="it resumes where it stopped"):
        ingest_in_batches(home, spark, is_derived=False)
    ingest_in_batches(home, spark, is_derived=False)
    actual, expected = read_tables(home), folder_lake[1]
    assert actual == {name: expected[name] for name in actual}


def test_reads_and_backfills_raw_events(
    home: DataDir, spark: SparkSession, folder_lake: tuple[DataDir, TableRows], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_pipeline(home, spark=spark) as pipeline:
        replace(pipeline, is_raw_only=True).ingest_available()
    assert read_status(home).pending_backfill_events > 0
    assert load_run_facets(Lake(home.lake), "run-0") == load_run_facets(Lake(folder_lake[0].lake), "run-0")
    with fail_at(3, monkeypatch), pytest.raises(OSError, match="the machine went down"):
        run_backfill(home, spark=spark, chunk_bytes=log_size(home.log) // 2)
    # The lock defers the refresh of derived tables to a running pipeline.
    with acquire_lock(home.lake / ".lock"):
        assert run_backfill(home, spark=spark, chunk_bytes=log_size(home.log) // 2).remaining == 0
    actual, expected = read_tables(home, "is_raw_only"), read_tables(folder_lake[0], "is_raw_only")
    assert actual == {name: expected[name] for name in actual}


def test_rejects_a_second_pipeline_and_expires_the_lock_of_a_dead_one(home: DataDir, spark: SparkSession) -> None:
    with open_pipeline(home, spark=spark):
        message = r"Another pipeline is running on s3://.* \(process \d+ on .*, since 20"
        with pytest.raises(LockedError, match=message), open_pipeline(home, spark=spark):
            pass
        with pytest.raises(ClewError, match="A pipeline is running"):
            run_maintenance(home, 0, is_forced=True)
    command = [sys.executable, "-c", HOLD_LOCK, str(home.lake)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"acquired\n"
        process.send_signal(signal.SIGKILL)
    rejected_count = 0
    while True:
        try:
            with acquire_lock(home.lake / ".lock"):
                break
        except LockedError as error:
            assert f"process {process.pid}" in error.message  # noqa: PT017  # the number of rejections depends on the clock
            rejected_count += 1
    assert rejected_count > 0
    ingest_in_batches(home, spark, is_derived=False)
    table = DeltaTable(str(home.lake / "lineage_events"))
    assert (
        QueryBuilder().register("t", table).execute("select distinct seq from t").read_all().num_rows == EVENT_COUNT + 2
    )
