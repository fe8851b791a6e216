"""Events taken in raw and filled in by Spark, also beside a stream: lake and index as if taken in whole."""

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

EVENTS = 40
CHUNK_BYTES = 200_000


def event(number: int) -> bytes:
    """Every fourth bears a large facet, and times run against the order received."""
    source = {"namespace": "n", "name": f"d{number % 3}", "field": "c"}
    lineage = {"fields": {f"c{number}": {"inputFields": [source]}}, "plan": "x" * (70_000 if number % 4 == 0 else 0)}
    written = {"namespace": "n", "name": "out", "facets": {"columnLineage": lineage, "flawed": number}}
    read = {"namespace": "n", "name": f"d{number % 3}", "facets": {"version": {"datasetVersion": str(number % 2)}}}
    parent = {"run": {"runId": "parent"}, "job": {"namespace": "n", "name": "above"}}
    return json.dumps(
        {
            "eventType": ("START", "COMPLETE")[number % 2],
            "eventTime": f"2026-01-01T10:{59 - number:02}:00Z",
            "run": {"runId": f"run-{number // 4}", "facets": {"parent": parent, "note": {"text": number}}},
            "job": {"namespace": "n", "name": f"j{number % 3}", "facets": {"jobType": {"jobType": f"T{number}"}}},
            "inputs": [read],
            "outputs": [written],
        }
    ).encode()


def append(home: DataDir, *numbers: int) -> None:
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(Stream.OPENLINEAGE, "test", event(number)) for number in numbers)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    home = DataDir(tmp_path_factory.mktemp("whole"))
    append(home, *range(EVENTS))
    with open_pipeline(home, spark=spark) as pipeline:
        pipeline.run()
    return home


def test_raw_events_are_filled_in(whole: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    home = DataDir(tmp_path / "raw")
    shutil.copytree(whole.log, home.log)
    with open_pipeline(home, spark=spark) as pipeline:
        assert replace(pipeline, is_raw_only=True).ingest_available().rows == {"lineage_events": EVENTS}
    done = run_backfill(home, chunk_bytes=CHUNK_BYTES, spark=spark)
    assert (done.events, done.remaining, done.is_derived_refreshed) == (EVENTS, 0, True)
    assert done.chunks > 2
    assert lake_rows(home) == lake_rows(whole)
    assert set(lake_rows(home)) == {*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES}
    assert index_rows(home.index_file) == index_rows(whole.index_file) == index_rows(rebuilt(home, spark))


def test_a_stream_goes_on_beside_a_backfill(spark: SparkSession, tmp_path: Path) -> None:
    home, other = DataDir(tmp_path / "home"), DataDir(tmp_path / "other")
    append(home, *range(EVENTS // 2))
    with open_pipeline(home, spark=spark) as pipeline:
        replace(pipeline, is_raw_only=True).ingest_available()
    stop, errors = Event(), []

    def stream() -> None:
        try:
            with open_pipeline(home, spark=spark) as pipeline:
                pipeline.stream(stop)
        except Exception as fault:  # noqa: BLE001  # told by the test
            errors.append(fault)

    thread = Thread(target=stream)
    thread.start()
    left = list(range(EVENTS // 2, EVENTS))
    done = run_backfill(
        home, chunk_bytes=CHUNK_BYTES, spark=spark, on_progress=lambda _: append(home, left.pop(0), left.pop(0))
    )
    append(home, *left)
    while thread.is_alive() and Lake(home.lake).row_counts()["lineage_events"] < EVENTS:
        thread.join(0.2)
    stop.set()
    thread.join()
    assert errors == []
    assert done.events == EVENTS // 2
    shutil.copytree(home.log, other.log)
    with open_pipeline(other, spark=spark) as pipeline:
        pipeline.ingest_available()
    expected = lake_rows(other)
    assert {name: rows for name, rows in lake_rows(home).items() if name in expected} == expected
    assert index_rows(home.index_file) == index_rows(other.index_file)


def test_an_index_by_event_time_is_rebuilt_the_same(whole: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    home = DataDir(tmp_path / "by time")
    shutil.copytree(whole.log, home.log)
    with open_pipeline(home, spark=spark, facet_order=FacetOrder.EVENT_TIME) as pipeline:
        replace(pipeline, bytes_per_trigger=CHUNK_BYTES).run()
    assert index_rows(home.index_file) == index_rows(rebuilt(home, spark))
    assert column_of(home, "current_run_facets") == {f"run-{number}": 4 * number for number in range(EVENTS // 4)}
    Lake(home.lake).set_facet_order(FacetOrder.RECEIVED)
    assert index_rows(rebuilt(home, spark)) == index_rows(whole.index_file)


def column_of(home: DataDir, table: str) -> dict[str, int]:
    """The text of each run's note."""
    delta = Lake(home.lake).table(table)
    assert delta is not None
    rows = delta.to_pyarrow_table().to_pylist()
    return {row["run_uuid"]: json.loads(row["facet"])["text"] for row in rows if row["name"] == "note"}


def rebuilt(home: DataDir, spark: SparkSession) -> Path:
    lake = Lake(home.lake)
    path = home.root / f"{lake.facet_order}.sqlite"
    rebuild_index(spark, lake, path)
    return path


def lake_rows(home: DataDir) -> dict[str, list[str]]:
    lake = Lake(home.lake)
    tables = {name: lake.table(name) for name in lake.row_counts()}
    assert set(tables) >= set(EVENT_TABLE_NAMES)
    return {
        name: sorted(str({**row, "is_raw_only": None}) for row in table.to_pyarrow_table().to_pylist())
        for name, table in tables.items()
        if table is not None
    }


def index_rows(path: Path) -> dict[str, list[str]]:
    index = connect_reader(path)
    names = [row["name"] for row in index.execute("select name from sqlite_master where type = 'table'")]
    tables = {
        name: index_facets(index) if name == "facets" else map(dict, index.execute(f"select * from {name}"))
        for name in sorted(set(names) - {"meta", "batches", "zstd_dictionaries"})
    }
    rows = {name: sorted(str({**row, "batch": None}) for row in table) for name, table in tables.items()}
    index.close()
    return rows
