"""Tests of a backfill by Spark, also during a stream: lake and index equal those of a full ingest."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession
from tests.reference.facet_blobs import index_facets

from clew.data_dir import DataDir
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.facets import FacetOrder
from clew.events.streams import Stream
from clew.index.backends.sqlite import connect_reader
from clew.lake.lake import Lake
from clew.lake.schemas import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.reprocess import rebuild_index, run_backfill

EVENT_COUNT = 40
CHUNK_BYTES = 200_000


def make_event(number: int) -> bytes:
    """Make an event; every fourth has a large facet, and event times decrease."""
    source = {"namespace": "n", "name": f"d{number % 3}", "field": "c"}
    lineage = {"fields": {f"c{number}": {"inputFields": [source]}}, "plan": "x" * (70_000 if number % 4 == 0 else 0)}
    output = {"namespace": "n", "name": "out", "facets": {"columnLineage": lineage, "flawed": number}}
    input_ = {"namespace": "n", "name": f"d{number % 3}", "facets": {"version": {"datasetVersion": str(number % 2)}}}
    parent = {"run": {"runId": "parent"}, "job": {"namespace": "n", "name": "above"}}
    return json.dumps(
        {
            "eventType": ("START", "COMPLETE")[number % 2],
            "eventTime": f"2026-01-01T10:{59 - number:02}:00Z",
            "run": {"runId": f"run-{number // 4}", "facets": {"parent": parent, "note": {"text": number}}},
            "job": {"namespace": "n", "name": f"j{number % 3}", "facets": {"jobType": {"jobType": f"T{number}"}}},
            "inputs": [input_],
            "outputs": [output],
        }
    ).encode()


def append_events(home: DataDir, *numbers: int) -> None:
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(Stream.OPENLINEAGE, "test", make_event(number)) for number in numbers)


@pytest.fixture(scope="module")
def full_home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    home = DataDir(tmp_path_factory.mktemp("whole"))
    append_events(home, *range(EVENT_COUNT))
    with open_pipeline(home, spark=spark) as pipeline:
        pipeline.run()
    return home


def test_backfills_raw_events(full_home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    home = DataDir(tmp_path / "raw")
    shutil.copytree(full_home.log, home.log)
    with open_pipeline(home, spark=spark) as pipeline:
        assert replace(pipeline, is_raw_only=True).ingest_available().rows == {"lineage_events": EVENT_COUNT}
    progress = run_backfill(home, chunk_bytes=CHUNK_BYTES, spark=spark)
    assert (progress.events, progress.remaining, progress.is_derived_refreshed) == (EVENT_COUNT, 0, True)
    assert progress.chunks > 2
    assert read_lake(home) == read_lake(full_home)
    assert set(read_lake(home)) == {*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES}
    assert read_index(home.index_file) == read_index(full_home.index_file) == read_index(rebuild(home, spark))


def test_a_stream_runs_during_a_backfill(spark: SparkSession, tmp_path: Path) -> None:
    home, reference = DataDir(tmp_path / "home"), DataDir(tmp_path / "other")
    append_events(home, *range(EVENT_COUNT // 2))
    with open_pipeline(home, spark=spark) as pipeline:
        replace(pipeline, is_raw_only=True).ingest_available()
    stop, errors = Event(), []

    def stream() -> None:
        try:
            with open_pipeline(home, spark=spark) as pipeline:
                pipeline.stream(stop)
        except Exception as error:  # noqa: BLE001  # asserted below
            errors.append(error)

    thread = Thread(target=stream)
    thread.start()
    remaining = list(range(EVENT_COUNT // 2, EVENT_COUNT))
    progress = run_backfill(
        home,
        chunk_bytes=CHUNK_BYTES,
        spark=spark,
        on_progress=lambda _: append_events(home, remaining.pop(0), remaining.pop(0)),
    )
    append_events(home, *remaining)
    while thread.is_alive() and Lake(home.lake).row_counts()["lineage_events"] < EVENT_COUNT:
        thread.join(0.2)
    stop.set()
    thread.join()
    assert errors == []
    assert progress.events == EVENT_COUNT // 2
    shutil.copytree(home.log, reference.log)
    with open_pipeline(reference, spark=spark) as pipeline:
        pipeline.ingest_available()
    expected = read_lake(reference)
    assert {name: rows for name, rows in read_lake(home).items() if name in expected} == expected
    assert read_index(home.index_file) == read_index(reference.index_file)


def test_rebuilds_an_index_by_event_time(full_home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    home = DataDir(tmp_path / "by time")
    shutil.copytree(full_home.log, home.log)
    with open_pipeline(home, spark=spark, facet_order=FacetOrder.EVENT_TIME) as pipeline:
        replace(pipeline, bytes_per_trigger=CHUNK_BYTES).run()
    assert read_index(home.index_file) == read_index(rebuild(home, spark))
    assert read_notes(home, "current_run_facets") == {f"run-{number}": 4 * number for number in range(EVENT_COUNT // 4)}
    Lake(home.lake).set_facet_order(FacetOrder.RECEIVED)
    assert read_index(rebuild(home, spark)) == read_index(full_home.index_file)


def read_notes(home: DataDir, table: str) -> dict[str, int]:
    """Read the text of each run's note facet."""
    delta = Lake(home.lake).table(table)
    assert delta is not None
    rows = delta.to_pyarrow_table().to_pylist()
    return {row["run_uuid"]: json.loads(row["facet"])["text"] for row in rows if row["name"] == "note"}


def rebuild(home: DataDir, spark: SparkSession) -> Path:
    lake = Lake(home.lake)
    path = home.root / f"{lake.facet_order}.sqlite"
    rebuild_index(spark, lake, path)
    return path


def read_lake(home: DataDir) -> dict[str, list[str]]:
    lake = Lake(home.lake)
    tables = {name: lake.table(name) for name in lake.row_counts()}
    assert set(tables) >= set(EVENT_TABLE_NAMES)
    return {
        name: sorted(str({**row, "is_raw_only": None}) for row in table.to_pyarrow_table().to_pylist())
        for name, table in tables.items()
        if table is not None
    }


def read_index(path: Path) -> dict[str, list[str]]:
    index = connect_reader(path)
    names = [row["name"] for row in index.execute("select name from sqlite_master where type = 'table'")]
    tables = {
        name: index_facets(index) if name == "facets" else map(dict, index.execute(f"select * from {name}"))
        for name in sorted(set(names) - {"meta", "batches", "zstd_dictionaries"})
    }
    rows = {name: sorted(str({**row, "batch": None}) for row in table) for name, table in tables.items()}
    index.close()
    return rows
