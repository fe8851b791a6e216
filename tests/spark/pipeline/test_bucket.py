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
from tests.spark.pipeline.records import Record, append, event, log_size, record, run
from tests.spark.pipeline.test_interruption import failing_at

from clew.errors import ClewError
from clew.home import BucketUrl, Home
from clew.lake.delta import REPORTS, Lake
from clew.lake.facet_history import facet_history
from clew.lake.facets import facets_of_run
from clew.lake.run_events import events_of
from clew.lake.storage import storage_at
from clew.pipeline.backfill import backfill
from clew.pipeline.lock import HeldError, held
from clew.pipeline.replay import replay
from clew.pipeline.status import status
from clew.pipeline.upkeep import upkeep
from clew.pipeline.work import open_pipeline
from clew.query.views.events import Wanted, event_list
from clew.reports.job import write_reports
from clew.reports.lake_reports import REPORTS as REPORTS_ON_LAKES

EVENTS = 24
BATCHES = 3
WEEK = 7 * 24
# Kept out of line, and told to the driver by way of a file.
WIDE = 1_500
HOLDER = """
import sys
from clew.home import BucketUrl
from clew.pipeline import lease
from clew.pipeline.lock import held
lease.LEASE_SECONDS = 2.0
with held(BucketUrl(sys.argv[1]) / ".lock"):
    print("held", flush=True)
    sys.stdin.read()
"""


def wide_event(number: int) -> bytes:
    fields = {f"c{place}": {"inputFields": [{"namespace": "n", "name": "d0", "field": "c"}]} for place in range(WIDE)}
    body = json.loads(event(number))
    body["outputs"][0]["facets"]["columnLineage"]["fields"] = fields
    return json.dumps(body).encode()


@pytest.fixture(scope="module")
def in_folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Record]:
    """A home whose lake is a folder, and all that is recorded there."""
    home = Home(tmp_path_factory.mktemp("folder"))
    append(home, *map(event, range(EVENTS)), wide_event(EVENTS), event(0, "again"), b"no event", event(0))
    run(home, spark, 1 << 24)
    return home, record(home)


@pytest.fixture
def home(in_folder: tuple[Home, Record], bucket: BucketUrl, tmp_path: Path) -> Home:
    """A home with the same log, and its lake in a bucket."""
    shutil.copytree(in_folder[0].log, tmp_path / "home" / "log")
    return Home(tmp_path / "home", bucket)


def take(home: Home, spark: SparkSession, *, is_derived: bool = True) -> None:
    run(home, spark, log_size(home.log) // BATCHES + 1, is_derived=is_derived)


def test_all_rows_are_the_same_as_in_a_folder_and_stay_so(
    home: Home, spark: SparkSession, in_folder: tuple[Home, Record], tmp_path: Path
) -> None:
    take(home, spark)
    assert record(home) == in_folder[1]
    take(home, spark)
    shutil.rmtree(home.checkpoint)
    take(home, spark)
    assert record(home) == in_folder[1], "read once more from the start, nothing is doubled"
    require_same_answers(home, in_folder[0])
    shutil.rmtree(home.checkpoint)
    assert status(home).tables == sorted(status(home).tables, key=lambda table: table.name)
    done = upkeep(home, 0, is_forced=True)
    before, after = done.merged["lineage_events"]
    assert before > after == 1
    count, size = done.removed["lineage_events"]
    assert count == before
    assert size > 0
    with open_pipeline(home, spark=spark, is_rebuilt=True) as pipeline:
        assert pipeline.lake.is_derived_from(pipeline.lake.state_of_events())
    assert record(home) == in_folder[1], "merged, tidied up, and with an index built anew"
    assert len(write_reports(home, tmp_path / "reports", tuple(REPORTS_ON_LAKES)[:2], spark=spark)) == 2
    assert list(storage_at(home.lake / REPORTS).entries()) == []


def require_same_answers(home: Home, other: Home) -> None:
    there, here = Lake(home.lake), Lake(other.lake)
    assert facets_of_run(there, "run-0") == facets_of_run(here, "run-0")
    schemas, known_schemas = (facet_history(lake, "dataset", ("n", "d1"), "schema") for lake in (there, here))
    assert len(schemas) > 1
    assert schemas == known_schemas
    assert list(events_of(there, "run-8")) == list(events_of(here, "run-8"))
    assert event_list(home.lake, Wanted()) == event_list(other.lake, Wanted())
    assert replay(home).still_rejected == 1
    told, known = status(home), status(other)
    assert [(table.name, table.rows) for table in told.tables] == [(table.name, table.rows) for table in known.tables]
    assert (told.rejected, told.without_facets, told.holder) == (known.rejected, 0, None)
    assert told.batches


@pytest.mark.parametrize("call", [2, 7])
def test_an_interruption_between_commits(
    call: int, home: Home, spark: SparkSession, in_folder: tuple[Home, Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_at(call, monkeypatch), pytest.raises(ClewError, match="it goes on where it stopped"):
        take(home, spark, is_derived=False)
    take(home, spark, is_derived=False)
    there, here = record(home), in_folder[1]
    assert there == {name: here[name] for name in there}


def test_raw_events_are_answered_for_and_filled_in(
    home: Home, spark: SparkSession, in_folder: tuple[Home, Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_pipeline(home, spark=spark) as pipeline:
        replace(pipeline, is_raw_only=True).take_new()
    assert status(home).without_facets > 0
    assert facets_of_run(Lake(home.lake), "run-0") == facets_of_run(Lake(in_folder[0].lake), "run-0")
    with failing_at(3, monkeypatch), pytest.raises(OSError, match="the machine went down"):
        backfill(home, spark=spark, chunk_bytes=log_size(home.log) // 2)
    # Derived tables are left to the pipeline that seems to be at work.
    with held(home.lake / ".lock"):
        assert backfill(home, spark=spark, chunk_bytes=log_size(home.log) // 2).left == 0
    there, here = record(home, "is_raw_only"), record(in_folder[0], "is_raw_only")
    assert there == {name: here[name] for name in there}


def test_a_second_pipeline_is_refused_and_a_dead_ones_lock_ends(home: Home, spark: SparkSession) -> None:
    with open_pipeline(home, spark=spark):
        sentence = r"Another pipeline is at work on s3://.* \(process \d+ on .*, since 20"
        with pytest.raises(HeldError, match=sentence), open_pipeline(home, spark=spark):
            pass
        with pytest.raises(ClewError, match="A pipeline is at work"):
            upkeep(home, 0, is_forced=True)
    command = [sys.executable, "-c", HOLDER, str(home.lake)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.send_signal(signal.SIGKILL)
    refused = 0
    while True:
        try:
            with held(home.lake / ".lock"):
                break
        except HeldError as fault:
            assert f"process {process.pid}" in fault.message  # noqa: PT017  # how often it is refused is the clock's
            refused += 1
    assert refused > 0
    take(home, spark, is_derived=False)
    table = DeltaTable(str(home.lake / "lineage_events"))
    assert QueryBuilder().register("t", table).execute("select distinct seq from t").read_all().num_rows == EVENTS + 2
