"""Tests that index, lake and rebuilt index have the same entities."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.support.paths import PIPELINE_CASES

from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.openlineage import to_epoch_micros
from clew.index.backends.sqlite import connect_reader
from clew.lake.lake import Lake
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.reprocess import rebuild_index

# Only the index needs them.
PARENT_OF_JOB = {"parent_job_namespace", "parent_job_name", "parent_seq"}
# Index query that corresponds to each table of the lake.
INDEX_QUERIES = {
    "runs": "select * from all_runs",
    "jobs": """select all_jobs.*, version as current_version from all_jobs
        left join current_job_versions on job_namespace = namespace and job_name = name""",
    "job_versions": "select * from job_versions",
    "dataset_versions": "select * from dataset_versions",
    "schemas": "select * from schemas",
    "cell_executions": "select * from cell_executions_with_state",
}


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    """Create a data directory with all golden cases in one log, ingested in several batches."""
    data_dir = DataDir(tmp_path_factory.mktemp("agreement"))
    bodies = [
        body for case in sorted(PIPELINE_CASES.iterdir()) for body in (case / "events.ndjson").read_bytes().splitlines()
    ]
    with open_pipeline(data_dir, spark=spark) as pipeline:
        for start in range(0, len(bodies), len(bodies) // 3 + 1):
            with LogWriter(data_dir.log) as log:
                batch = bodies[start : start + len(bodies) // 3 + 1]
                log.append(IncomingEvent(guess_stream(body), "case", body) for body in batch)
            pipeline.ingest_available()
        pipeline.refresh()
    return data_dir


@pytest.mark.parametrize("table", INDEX_QUERIES)
def test_lake_table_equals_the_index(table: str, home: DataDir) -> None:
    delta = Lake(home.lake).table(table)
    assert delta is not None
    lake_rows = sorted(map(to_comparable, delta.to_pyarrow_table().to_pylist()))
    omitted = PARENT_OF_JOB if table == "jobs" else set()
    index_rows = [
        {name: value for name, value in dict(row).items() if name not in omitted}
        for row in connect_reader(home.index_file).execute(INDEX_QUERIES[table])
    ]
    assert lake_rows
    assert sorted(map(to_comparable, index_rows)) == lake_rows


def test_rebuilt_index_is_equal(home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    rebuilt = tmp_path / "index.sqlite"
    rebuild_index(spark, Lake(home.lake), rebuilt)
    assert read_index(rebuilt) == read_index(home.index_file)


def read_index(index: Path) -> dict[str, list[str]]:
    database = connect_reader(index)
    names = [row["name"] for row in database.execute("select name from sqlite_master where type in ('table', 'view')")]
    tables = {
        name: database.execute(f"select * from {name}").fetchall() for name in names if name not in {"meta", "batches"}
    }
    return {name: sorted(to_comparable(dict(row)) for row in rows) for name, rows in tables.items()}


def to_comparable(row: dict[str, Any]) -> str:
    """Serialize a row without internal columns."""
    compared = {name: normalize(value) for name, value in row.items() if not is_internal(name)}
    return json.dumps(compared, sort_keys=True, default=str)


def is_internal(column: str) -> bool:
    """Return whether a column may differ, or is needed to merge rows only."""
    return column in {"batch", "body", "has_lineage_entries"} or column.endswith("_order_time")


def normalize(value: Any) -> Any:
    if isinstance(value, datetime):
        return to_epoch_micros(value)
    if isinstance(value, list):
        return json.dumps(value, separators=(",", ":"))
    return int(value) if isinstance(value, bool) else value
