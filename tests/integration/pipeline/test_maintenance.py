"""Files are merged and dead letters replayed between batches: lake and index are as if they had not been."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import write_here

from clew.data_dir import DataDir
from clew.eventlog.segments import end_position
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events import openlineage
from clew.events.streams import Stream
from clew.index.backends.sqlite import connect_reader
from clew.lake.lake import Lake
from clew.lake.schemas import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES
from clew.pipeline.checkpoint import Checkpoint, read_batch_records
from clew.pipeline.maintenance import MaintenanceConfig, MaintenanceStats, run_maintenance
from clew.pipeline.pipeline import Pipeline, open_pipeline
from clew.pipeline.reprocess import ReplayStats, rebuild_index, replay_rejected_events
from clew.pipeline.status import read_status

BATCHES = 3


def event(number: int) -> bytes:
    dataset = {"namespace": "n", "name": f"d{number % 2}", "facets": {"schema": {"fields": [{"name": f"c{number}"}]}}}
    moment = f"2026-01-01T10:00:{number:02}.123456Z"
    run = {"runId": f"run {number}", "facets": {"note": {"text": "x" * 1000}}}
    return json.dumps({"eventTime": moment, "run": run, "inputs": [dataset], "outputs": [dataset]}).encode()


def append(home: DataDir, body: bytes) -> None:
    with LogWriter(home.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", body)])


def lake_rows(home: DataDir, names: tuple[str, ...]) -> dict[str, list[str]]:
    lake = Lake(home.lake)
    tables = {name: table for name in names if (table := lake.table(name)) is not None}
    return {name: sorted(map(without_arrival, table.to_pyarrow_table().to_pylist())) for name, table in tables.items()}


def without_arrival(row: dict[str, Any]) -> str:
    return json.dumps({key: row[key] for key in row if key not in {"received_at", "created_at"}}, default=str)


def index_rows(home: DataDir) -> dict[str, list[str]]:
    index = connect_reader(home.index_file)
    names = [row["name"] for row in index.execute("select name from sqlite_master where type = 'table'")]
    rows = {
        name: sorted(str({key: row[key] for key in row.keys() if key != "batch"}) for row in found)  # noqa: SIM118
        for name in names
        if name not in {"meta", "batches"}
        for found in [index.execute(f"select * from {name}").fetchall()]
    }
    index.close()
    return rows


def test_upkeep_between_batches_changes_no_row(spark: SparkSession, tmp_path: Path) -> None:
    left, tidied = DataDir(tmp_path / "left"), DataDir(tmp_path / "tidied")
    for home in (left, tidied):
        take_in_batches(home, spark, is_tidied=home is tidied)
    names = (*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES)
    assert len(Lake(left.lake).files("lineage_events")) == BATCHES
    assert len(Lake(tidied.lake).files("lineage_events")) == 1
    assert lake_rows(tidied, names) == lake_rows(left, names)
    assert len(lake_rows(tidied, names)["lineage_events"]) == BATCHES
    assert rebuilt(tidied, spark) == index_rows(tidied) == index_rows(left)


def take_in_batches(home: DataDir, spark: SparkSession, *, is_tidied: bool) -> None:
    for number in range(BATCHES):
        append(home, event(number))
        with open_pipeline(home, spark=spark) as pipeline:
            pipeline.ingest_available()
            if is_tidied:
                assert run_maintenance(home, 24).is_refresh_deferred
    with open_pipeline(home, spark=spark) as pipeline:
        pipeline.refresh()


def rebuilt(home: DataDir, spark: SparkSession) -> dict[str, list[str]]:
    other = DataDir(home.root / "other").create()
    rebuild_index(spark, Lake(home.lake), other.index)
    return index_rows(other)


def test_a_stream_keeps_its_lake_tidy(spark: SparkSession, tmp_path: Path) -> None:
    home, count = DataDir(tmp_path), 16
    for number in range(count):
        append(home, event(number))
    stop = Event()
    said: list[str] = []

    cared = MaintenanceStats()

    def look() -> None:
        if Checkpoint(home.checkpoint).committed_offset == end_position(home.log) and cared.refreshes:
            stop.set()

    with open_pipeline(home, spark=spark, on_progress=said.append) as opened:
        # So many batches, each of about one event.
        pipeline = replace(opened, bytes_per_trigger=end_position(home.log) // count)
        pipeline.stream(
            stop,
            look,
            MaintenanceConfig(compaction_trigger_files=4, poll_interval_seconds=0.01, refresh_interval_seconds=0.1),
            cared,
        )
    assert ([text for text in said if "failed" in text], cared.errors) == ([], 0)
    taken = read_batch_records(home.checkpoint)
    assert sum(batch.events for batch in taken) == count
    assert len(taken) >= count
    names = ("lineage_events", "run_facets", "dataset_facets", "runs")
    assert {name: len(Lake(home.lake).files(name)) < count // 2 for name in names} == dict.fromkeys(names, True)
    rows = lake_rows(home, names)
    assert {name: len(rows[name]) for name in names} == dict(zip(names, (count, count, 2 * count, count), strict=True))


def test_derived_tables_that_are_behind_are_refreshed(spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None, "the session that upkeep will find"
    home = DataDir(tmp_path)
    append(home, event(0))
    with open_pipeline(home, spark=spark) as pipeline:
        pipeline.ingest_available()
    assert run_maintenance(home, 24).is_refreshed
    assert len(lake_rows(home, ("runs",))["runs"]) == 1
    assert not run_maintenance(home, 24).is_refreshed


def test_an_event_that_an_older_clew_rejected_is_taken_in_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = DataDir(tmp_path)
    schema = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
    append(home, json.dumps({**json.loads(event(0)), "schemaURL": schema}).encode())
    append(home, b"no event at all")
    with monkeypatch.context() as older, open_pipeline(home, spark=spark) as pipeline:
        older.setattr(openlineage, "MAX_SCHEMA_MODEL", 1)
        older.setattr("clew.pipeline.ingest.write_events", write_here)
        assert pipeline.ingest_available().rejected == 2
    assert replay_rejected_events(home) == ReplayStats(replayed=1, still_rejected=1)
    assert read_status(home).log.events == 1
    with open_pipeline(home, spark=spark) as pipeline:
        taken = pipeline.run()
        assert (taken.events, taken.rejected, taken.duplicates) == (1, 0, 0)
        check_taken_once(pipeline)
    shutil.rmtree(home.checkpoint)
    with open_pipeline(home, spark=spark) as pipeline:
        again = pipeline.ingest_available()
        assert (again.events, again.rejected) == (0, 0)
        check_taken_once(pipeline)
    assert rebuilt(home, spark) == index_rows(home)


def check_taken_once(pipeline: Pipeline) -> None:
    rows = lake_rows(pipeline.home, ("lineage_events", "rejected_events", "runs"))
    assert {name: len(found) for name, found in rows.items()} == {"lineage_events": 1, "rejected_events": 2, "runs": 1}
    assert replay_rejected_events(pipeline.home) == ReplayStats(already_ingested=1, still_rejected=1)
    found = read_status(pipeline.home)
    assert (found.log.events, found.rejected.unresolved) == (0, 1)
    assert found.locked_by is not None
