"""A lake in a bucket, on a real S3 server: every row is there that would be there in a folder, once."""

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
from tests.integration.pipeline.records import Record, append, event, log_size, record, run
from tests.integration.pipeline.test_interruption import failing_at

from clew.data_dir import BucketUrl, DataDir
from clew.errors import ClewError
from clew.lake.facets import load_run_facets, read_facet_history
from clew.lake.lake import WORKER_REPORTS_DIR, Lake
from clew.lake.scan import read_run_events
from clew.lake.storage import open_storage
from clew.pipeline.locks import LockedError, acquire_lock
from clew.pipeline.maintenance import run_maintenance
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.reprocess import replay_rejected_events, run_backfill
from clew.pipeline.status import read_status
from clew.query.pages.lists import EventFilter, query_events
from clew.reports.run import REPORTS as REPORTS_ON_LAKES
from clew.reports.run import write_reports

EVENTS = 24
BATCHES = 3
WEEK = 7 * 24
# Kept out of line, and told to the driver by way of a file.
WIDE = 1_500
HOLDER = """
import sys
from clew.data_dir import BucketUrl
from clew.lake import s3
from clew.pipeline.locks import acquire_lock
s3.LEASE_SECONDS = 2.0
with acquire_lock(BucketUrl(sys.argv[1]) / ".lock"):
    print("held", flush=True)
    sys.stdin.read()
"""


def wide_event(number: int) -> bytes:
    fields = {f"c{place}": {"inputFields": [{"namespace": "n", "name": "d0", "field": "c"}]} for place in range(WIDE)}
    body = json.loads(event(number))
    body["outputs"][0]["facets"]["columnLineage"]["fields"] = fields
    return json.dumps(body).encode()


@pytest.fixture(scope="module")
def in_folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataDir, Record]:
    """A home whose lake is a folder, and all that is recorded there."""
    home = DataDir(tmp_path_factory.mktemp("folder"))
    append(home, *map(event, range(EVENTS)), wide_event(EVENTS), event(0, "again"), b"no event", event(0))
    run(home, spark, 1 << 24)
    return home, record(home)


@pytest.fixture
def home(in_folder: tuple[DataDir, Record], bucket: BucketUrl, tmp_path: Path) -> DataDir:
    """A home with the same log, and its lake in a bucket."""
    shutil.copytree(in_folder[0].log, tmp_path / "home" / "log")
    return DataDir(tmp_path / "home", bucket)


def take(home: DataDir, spark: SparkSession, *, is_derived: bool = True) -> None:
    run(home, spark, log_size(home.log) // BATCHES + 1, is_derived=is_derived)


def test_all_rows_are_the_same_as_in_a_folder_and_stay_so(
    home: DataDir, spark: SparkSession, in_folder: tuple[DataDir, Record], tmp_path: Path
) -> None:
    take(home, spark)
    assert record(home) == in_folder[1]
    take(home, spark)
    shutil.rmtree(home.checkpoint)
    take(home, spark)
    assert record(home) == in_folder[1], "read once more from the start, nothing is doubled"
    require_same_answers(home, in_folder[0])
    shutil.rmtree(home.checkpoint)
    assert read_status(home).tables == sorted(read_status(home).tables, key=lambda table: table.name)
    done = run_maintenance(home, 0, is_forced=True)
    before, after = done.compacted["lineage_events"]
    assert before > after == 1
    count, size = done.vacuumed["lineage_events"]
    assert count == before
    assert size > 0
    with open_pipeline(home, spark=spark, rebuild=True) as pipeline:
        assert pipeline.lake.is_up_to_date(pipeline.lake.source_fingerprint())
    assert record(home) == in_folder[1], "merged, tidied up, and with an index built anew"
    assert len(write_reports(home, tmp_path / "reports", tuple(REPORTS_ON_LAKES)[:2], spark=spark)) == 2
    assert list(open_storage(home.lake / WORKER_REPORTS_DIR).list_files()) == []


def require_same_answers(home: DataDir, other: DataDir) -> None:
    there, here = Lake(home.lake), Lake(other.lake)
    assert load_run_facets(there, "run-0") == load_run_facets(here, "run-0")
    schemas, known_schemas = (read_facet_history(lake, "dataset", ("n", "d1"), "schema") for lake in (there, here))
    assert len(schemas) > 1
    assert schemas == known_schemas
    assert list(read_run_events(there, "run-8")) == list(read_run_events(here, "run-8"))
    assert query_events(home.lake, EventFilter()) == query_events(other.lake, EventFilter())
    assert replay_rejected_events(home).still_rejected == 1
    told, known = read_status(home), read_status(other)
    assert [(table.name, table.rows) for table in told.tables] == [(table.name, table.rows) for table in known.tables]
    assert (told.rejected, told.pending_backfill_events, told.locked_by) == (known.rejected, 0, None)
    assert told.batches


@pytest.mark.parametrize("call", [2, 7])
def test_an_interruption_between_commits(
    call: int, home: DataDir, spark: SparkSession, in_folder: tuple[DataDir, Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_at(call, monkeypatch), pytest.raises(ClewError, match="it resumes where it stopped"):
        take(home, spark, is_derived=False)
    take(home, spark, is_derived=False)
    there, here = record(home), in_folder[1]
    assert there == {name: here[name] for name in there}


def test_raw_events_are_answered_for_and_filled_in(
    home: DataDir, spark: SparkSession, in_folder: tuple[DataDir, Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_pipeline(home, spark=spark) as pipeline:
        replace(pipeline, is_raw_only=True).ingest_available()
    assert read_status(home).pending_backfill_events > 0
    assert load_run_facets(Lake(home.lake), "run-0") == load_run_facets(Lake(in_folder[0].lake), "run-0")
    with failing_at(3, monkeypatch), pytest.raises(OSError, match="the machine went down"):
        run_backfill(home, spark=spark, chunk_bytes=log_size(home.log) // 2)
    # Derived tables are left to the pipeline that seems to be at work.
    with acquire_lock(home.lake / ".lock"):
        assert run_backfill(home, spark=spark, chunk_bytes=log_size(home.log) // 2).remaining == 0
    there, here = record(home, "is_raw_only"), record(in_folder[0], "is_raw_only")
    assert there == {name: here[name] for name in there}


def test_a_second_pipeline_is_refused_and_a_dead_ones_lock_ends(home: DataDir, spark: SparkSession) -> None:
    with open_pipeline(home, spark=spark):
        sentence = r"Another pipeline is running on s3://.* \(process \d+ on .*, since 20"
        with pytest.raises(LockedError, match=sentence), open_pipeline(home, spark=spark):
            pass
        with pytest.raises(ClewError, match="A pipeline is running"):
            run_maintenance(home, 0, is_forced=True)
    command = [sys.executable, "-c", HOLDER, str(home.lake)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.send_signal(signal.SIGKILL)
    refused = 0
    while True:
        try:
            with acquire_lock(home.lake / ".lock"):
                break
        except LockedError as fault:
            assert f"process {process.pid}" in fault.message  # noqa: PT017  # how often it is refused is the clock's
            refused += 1
    assert refused > 0
    take(home, spark, is_derived=False)
    table = DeltaTable(str(home.lake / "lineage_events"))
    assert QueryBuilder().register("t", table).execute("select distinct seq from t").read_all().num_rows == EVENTS + 2
