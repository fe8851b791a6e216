"""Tests that compaction and replay between batches change no row of lake and index."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import write_events_locally

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

BATCH_COUNT = 3


def make_event(number: int) -> bytes:
    dataset = {"namespace": "n", "name": f"d{number % 2}", "facets": {"schema": {"fields": [{"name": f"c{number}"}]}}}
    event_time = f"2026-01-01T10:00:{number:02}.123456Z"
    run = {"runId": f"run {number}", "facets": {"note": {"text": "x" * 1000}}}
    job = {"namespace": "n", "name": "j"}
    return json.dumps(
        {"eventTime": event_time, "run": run, "job": job, "inputs": [dataset], "outputs": [dataset]}
    ).encode()


def append_event(home: DataDir, body: bytes) -> None:
    with LogWriter(home.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", body)])


def read_lake(home: DataDir, names: tuple[str, ...]) -> dict[str, list[str]]:
    lake = Lake(home.lake)
    tables = {name: table for name in names if (table := lake.table(name)) is not None}
    return {name: sorted(map(to_comparable, table.to_pyarrow_table().to_pylist())) for name, table in tables.items()}


def to_comparable(row: dict[str, Any]) -> str:
    return json.dumps({key: row[key] for key in row if key not in {"received_at", "created_at"}}, default=str)


def read_index(home: DataDir) -> dict[str, list[str]]:
    index = connect_reader(home.index_file)
    names = [row["name"] for row in index.execute("select name from sqlite_master where type = 'table'")]
    rows = {
        name: sorted(str({key: row[key] for key in row.keys() if key != "batch"}) for row in table_rows)  # noqa: SIM118
        for name in names
        if name not in {"meta", "batches"}
        for table_rows in [index.execute(f"select * from {name}").fetchall()]
    }
    index.close()
    return rows


def test_maintenance_between_batches_changes_no_row(spark: SparkSession, tmp_path: Path) -> None:
    reference, maintained = DataDir(tmp_path / "reference"), DataDir(tmp_path / "maintained")
    for home in (reference, maintained):
        ingest_in_batches(home, spark, is_maintained=home is maintained)
    names = (*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES)
    assert len(Lake(reference.lake).files("lineage_events")) == BATCH_COUNT
    assert len(Lake(maintained.lake).files("lineage_events")) == 1
    assert read_lake(maintained, names) == read_lake(reference, names)
    assert len(read_lake(maintained, names)["lineage_events"]) == BATCH_COUNT
    assert rebuild(maintained, spark) == read_index(maintained) == read_index(reference)


def ingest_in_batches(home: DataDir, spark: SparkSession, *, is_maintained: bool) -> None:
    for number in range(BATCH_COUNT):
        append_event(home, make_event(number))
        with open_pipeline(home, spark=spark) as pipeline:
            pipeline.ingest_available()
            if is_maintained:
                assert run_maintenance(home, 24).is_refresh_deferred
    with open_pipeline(home, spark=spark) as pipeline:
        pipeline.refresh()


def rebuild(home: DataDir, spark: SparkSession) -> dict[str, list[str]]:
    rebuilt = DataDir(home.root / "other").create()
    rebuild_index(spark, Lake(home.lake), rebuilt.index)
    return read_index(rebuilt)


def test_stream_compacts_its_lake(spark: SparkSession, tmp_path: Path) -> None:
    home, count = DataDir(tmp_path), 16
    for number in range(count):
        append_event(home, make_event(number))
    stop = Event()
    messages: list[str] = []

    stats = MaintenanceStats()

    def stop_when_done() -> None:
        if Checkpoint(home.checkpoint).committed_offset == end_position(home.log) and stats.refreshes:
            stop.set()

    with open_pipeline(home, spark=spark, on_progress=messages.append) as pipeline:
        # One event per batch, approximately.
        limited = replace(pipeline, bytes_per_trigger=end_position(home.log) // count)
        limited.stream(
            stop,
            stop_when_done,
            MaintenanceConfig(compaction_trigger_files=4, poll_interval_seconds=0.01, refresh_interval_seconds=0.1),
            stats,
        )
        # A refresh that was running at the stop is cancelled.
        limited.refresh()
    assert ([message for message in messages if "failed" in message], stats.errors) == ([], 0)
    batches = read_batch_records(home.checkpoint)
    assert sum(batch.events for batch in batches) == count
    assert len(batches) >= count
    names = ("lineage_events", "run_facets", "dataset_facets", "runs")
    assert {name: len(Lake(home.lake).files(name)) < count // 2 for name in names} == dict.fromkeys(names, True)
    rows = read_lake(home, names)
    assert {name: len(rows[name]) for name in names} == dict(zip(names, (count, count, 2 * count, count), strict=True))


def test_refreshes_outdated_derived_tables(spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None, "the session that maintenance uses"
    home = DataDir(tmp_path)
    append_event(home, make_event(0))
    with open_pipeline(home, spark=spark) as pipeline:
        pipeline.ingest_available()
    assert run_maintenance(home, 24).is_refreshed
    assert len(read_lake(home, ("runs",))["runs"]) == 1
    assert not run_maintenance(home, 24).is_refreshed


def test_replays_an_event_that_is_valid_now(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = DataDir(tmp_path)
    schema = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
    append_event(home, json.dumps({**json.loads(make_event(0)), "schemaURL": schema}).encode())
    append_event(home, b"no event at all")
    with monkeypatch.context() as patch, open_pipeline(home, spark=spark) as pipeline:
        patch.setattr(openlineage, "MAX_SCHEMA_MODEL", 1)
        patch.setattr("clew.pipeline.ingest.write_events", write_events_locally)
        assert pipeline.ingest_available().rejected == 2
    assert replay_rejected_events(home) == ReplayStats(replayed=1, still_rejected=1)
    assert read_status(home).log.events == 1
    with open_pipeline(home, spark=spark) as pipeline:
        stats = pipeline.run()
        assert (stats.events, stats.rejected, stats.duplicates) == (1, 0, 0)
        check_ingested_once(pipeline)
    shutil.rmtree(home.checkpoint)
    with open_pipeline(home, spark=spark) as pipeline:
        stats = pipeline.ingest_available()
        assert (stats.events, stats.rejected) == (0, 0)
        check_ingested_once(pipeline)
    assert rebuild(home, spark) == read_index(home)


def check_ingested_once(pipeline: Pipeline) -> None:
    rows = read_lake(pipeline.home, ("lineage_events", "rejected_events", "runs"))
    assert {name: len(table_rows) for name, table_rows in rows.items()} == {
        "lineage_events": 1,
        "rejected_events": 2,
        "runs": 1,
    }
    assert replay_rejected_events(pipeline.home) == ReplayStats(already_ingested=1, still_rejected=1)
    status = read_status(pipeline.home)
    assert (status.log.events, status.rejected.unresolved) == (0, 1)
    assert status.locked_by is not None
