"""Tests that other engines read the same rows from compacted and new files of a lake."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from bench.delta_jars import delta_settings
from bench.jars import NoJarError
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import append_events, make_event, run_pipeline
from tests.support.paths import PIPELINE_CASES, ROOT

from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.lake.compaction import compact_tables
from clew.lake.lake import Lake

# By table: number of rows, and a checksum of the key columns.
Summary = dict[str, tuple[int, str]]
# Key columns of any table.
KEYS = ("event_id", "uuid", "run_uuid", "name", "job_name", "dataset_name", "execution_id", "operation_id")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = DataDir(tmp_path_factory.mktemp("interop"))
    bodies = [
        line for file in sorted(PIPELINE_CASES.glob("*/events.ndjson")) for line in file.read_bytes().splitlines()
    ]
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(guess_stream(body), "case", body) for body in bodies)
    run_pipeline(home, spark, bytes_per_trigger=8_000)
    compacted = compact_tables(Lake(home.lake))
    assert compacted["lineage_events"][0] > compacted["lineage_events"][1]
    append_events(home, *map(make_event, range(4)), make_event(4, "large enough for a separate file " * 10_000))
    run_pipeline(home, spark, bytes_per_trigger=8_000)
    assert len(Lake(home.lake).files("lineage_events")) > 1
    return home.lake_folder


@pytest.fixture(scope="module")
def summary(lake: Path) -> Summary:
    """Summary by delta-rs, the library that the pipeline commits with."""
    return summarize(lake, lambda path: DeltaTable(path).to_pyarrow_table().to_pylist())


def summarize(lake: Path, read_rows: Callable[[str], list[dict[str, Any]]]) -> Summary:
    names = sorted(folder.parent.name for folder in lake.glob("*/_delta_log"))
    return {name: summarize_rows(read_rows(str(lake / name))) for name in names}


def summarize_rows(rows: list[dict[str, Any]]) -> tuple[int, str]:
    keys = sorted(json.dumps([row.get(key) for key in KEYS]) for row in rows)
    return len(rows), hashlib.sha256("\n".join(keys).encode()).hexdigest()


def test_only_backfills_is_empty(summary: Summary) -> None:
    """Not checked for tables of deleted facets."""
    empty = {name for name, (count, _) in summary.items() if count == 0}
    assert {name for name in empty if not name.startswith("state_deleted_")} == {"backfills"}


def test_polars(lake: Path, summary: Summary) -> None:
    assert summarize(lake, lambda path: pl.read_delta(path).to_dicts()) == summary
    assert summarize(lake, lambda path: pl.scan_delta(path).collect().to_dicts()) == summary


def test_duckdb_parquet(lake: Path, summary: Summary) -> None:
    assert summarize(lake, read_with_duckdb) == summary


def read_with_duckdb(path: str) -> list[dict[str, Any]]:
    """Read the table's Parquet files, which needs no extension."""
    files = DeltaTable(path).file_uris()
    if not files:
        return []
    with duckdb.connect() as database:
        table: Any = database.sql("select * from read_parquet(?)", params=[files]).to_arrow_table()
    return list(table.to_pylist())


def test_duckdb_delta_extension(lake: Path, summary: Summary) -> None:
    with duckdb.connect() as database:
        try:
            database.execute("install delta")
            database.execute("load delta")
        except duckdb.Error as error:
            pytest.skip(f"DuckDB's delta extension cannot be installed: {str(error).splitlines()[0]}")

        def read_rows(path: str) -> list[dict[str, Any]]:
            table: Any = database.sql("select * from delta_scan(?)", params=[path]).to_arrow_table()
            return list(table.to_pylist())

        assert summarize(lake, read_rows) == summary


def test_delta_spark(lake: Path, summary: Summary, pytestconfig: pytest.Config) -> None:
    cache = pytestconfig.cache
    assert cache is not None
    try:
        settings = delta_settings(cache.mkdir("jars"))
    except NoJarError as error:
        pytest.skip(str(error))
    # In a separate process: jars cannot be added to a running session.
    code = f"from {__name__} import print_summary; print_summary({str(lake)!r}, {settings!r})"
    root = ROOT
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    summary_of_spark = json.loads(process.stdout.splitlines()[-1])
    assert {name: tuple(row) for name, row in summary_of_spark.items()} == summary


def print_summary(lake: str, settings: dict[str, str]) -> None:
    """Print the summary by delta-spark as JSON on the last line."""
    from clew.pipeline.spark.session import build_session

    # The default replays every table's log in 50 tasks.
    spark = build_session(conf={**settings, "spark.databricks.delta.snapshotPartitions": "1"})

    def read_rows(path: str) -> list[dict[str, Any]]:
        return list(spark.read.format("delta").load(path).toArrow().to_pylist())

    sys.stdout.write(f"\n{json.dumps(summarize(Path(lake), read_rows))}\n")
    spark.stop()
