"""The two ways from events to entities agree: what batches left in the index, what the lake says, what is rebuilt."""

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

# What in the index is the table of the lake.
SAME = {
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
    """All golden cases in one log, taken in by several batches."""
    made = DataDir(tmp_path_factory.mktemp("agreement"))
    bodies = [
        body for case in sorted(PIPELINE_CASES.iterdir()) for body in (case / "events.ndjson").read_bytes().splitlines()
    ]
    with open_pipeline(made, spark=spark) as pipeline:
        for start in range(0, len(bodies), len(bodies) // 3 + 1):
            with LogWriter(made.log) as log:
                some = bodies[start : start + len(bodies) // 3 + 1]
                log.append(IncomingEvent(guess_stream(body), "case", body) for body in some)
            pipeline.ingest_available()
        pipeline.refresh()
    return made


@pytest.mark.parametrize("table", SAME)
def test_the_lake_says_the_same_as_the_index(table: str, home: DataDir) -> None:
    delta = Lake(home.lake).table(table)
    assert delta is not None
    of_lake = sorted(map(comparable, delta.to_pyarrow_table().to_pylist()))
    found = [dict(row) for row in connect_reader(home.index_file).execute(SAME[table])]
    assert of_lake
    assert sorted(map(comparable, found)) == of_lake


def test_a_rebuilt_index_is_the_same(home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    rebuilt = tmp_path / "index.sqlite"
    rebuild_index(spark, Lake(home.lake), rebuilt)
    assert contents(rebuilt) == contents(home.index_file)


def contents(index: Path) -> dict[str, list[str]]:
    database = connect_reader(index)
    names = [row["name"] for row in database.execute("select name from sqlite_master where type in ('table', 'view')")]
    known = {
        name: database.execute(f"select * from {name}").fetchall() for name in names if name not in {"meta", "batches"}
    }
    return {name: sorted(comparable(dict(row)) for row in rows) for name, rows in known.items()}


def comparable(row: dict[str, Any]) -> str:
    """Which batch brought an event may differ, and so may how bodies are packed."""
    kept = {name: plain(value) for name, value in row.items() if name not in {"batch", "body"}}
    return json.dumps(kept, sort_keys=True, default=str)


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return to_epoch_micros(value)
    if isinstance(value, list):
        return json.dumps(value, separators=(",", ":"))
    return int(value) if isinstance(value, bool) else value
