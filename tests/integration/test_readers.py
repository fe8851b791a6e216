"""Other engines read every table of a lake that was merged, and merged files beside new ones: all find the same."""

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
from tests.integration.pipeline.records import append, event, run
from tests.support.paths import PIPELINE_CASES, ROOT

from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.lake.compaction import compact_tables
from clew.lake.lake import Lake

# Of each table: the number of rows, and a checksum of the columns that name them.
Summary = dict[str, tuple[int, str]]
# What names a row, of any table, is a text in one of these columns.
KEYS = ("event_id", "uuid", "run_uuid", "name", "job_name", "dataset_name", "execution_id", "operation_id")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = DataDir(tmp_path_factory.mktemp("interop"))
    bodies = [
        line for file in sorted(PIPELINE_CASES.glob("*/events.ndjson")) for line in file.read_bytes().splitlines()
    ]
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(guess_stream(body), "case", body) for body in bodies)
    run(home, spark, bytes_per_trigger=8_000)
    merged = compact_tables(Lake(home.lake))
    assert merged["lineage_events"][0] > merged["lineage_events"][1]
    append(home, *map(event, range(4)), event(4, "large enough to be kept apart " * 10_000))
    run(home, spark, bytes_per_trigger=8_000)
    assert len(Lake(home.lake).files("lineage_events")) > 1
    return home.lake_folder


@pytest.fixture(scope="module")
def summary(lake: Path) -> Summary:
    """What the library says that the pipeline itself commits with."""
    return summarised(lake, lambda path: DeltaTable(path).to_pyarrow_table().to_pylist())


def summarised(lake: Path, rows_of: Callable[[str], list[dict[str, Any]]]) -> Summary:
    names = sorted(folder.parent.name for folder in lake.glob("*/_delta_log"))
    return {name: summarised_rows(rows_of(str(lake / name))) for name in names}


def summarised_rows(rows: list[dict[str, Any]]) -> tuple[int, str]:
    keys = sorted(json.dumps([row.get(key) for key in KEYS]) for row in rows)
    return len(rows), hashlib.sha256("\n".join(keys).encode()).hexdigest()


def test_there_is_something_to_agree_on(summary: Summary) -> None:
    assert {name for name, (count, _) in summary.items() if count == 0} == {"backfills"}


def test_polars_agrees(lake: Path, summary: Summary) -> None:
    assert summarised(lake, lambda path: pl.read_delta(path).to_dicts()) == summary
    assert summarised(lake, lambda path: pl.scan_delta(path).collect().to_dicts()) == summary


def test_duckdb_agrees(lake: Path, summary: Summary) -> None:
    assert summarised(lake, rows_in_duckdb) == summary


def rows_in_duckdb(path: str) -> list[dict[str, Any]]:
    """Read the files that the table's log names: this needs no extension."""
    files = DeltaTable(path).file_uris()
    if not files:
        return []
    with duckdb.connect() as database:
        found: Any = database.sql("select * from read_parquet(?)", params=[files]).to_arrow_table()
    return list(found.to_pylist())


def test_duckdb_agrees_by_its_own_reader(lake: Path, summary: Summary) -> None:
    with duckdb.connect() as database:
        try:
            database.execute("install delta")
            database.execute("load delta")
        except duckdb.Error as fault:
            pytest.skip(f"DuckDB's delta extension cannot be had: {str(fault).splitlines()[0]}")

        def rows(path: str) -> list[dict[str, Any]]:
            found: Any = database.sql("select * from delta_scan(?)", params=[path]).to_arrow_table()
            return list(found.to_pylist())

        assert summarised(lake, rows) == summary


def test_delta_spark_agrees(lake: Path, summary: Summary, pytestconfig: pytest.Config) -> None:
    cache = pytestconfig.cache
    assert cache is not None
    try:
        settings = delta_settings(cache.mkdir("jars"))
    except NoJarError as fault:
        pytest.skip(str(fault))
    # In a process of its own: a session that runs takes no more jars.
    code = f"from {__name__} import print_summary; print_summary({str(lake)!r}, {settings!r})"
    root = ROOT
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert {name: tuple(row) for name, row in found.items()} == summary


def print_summary(lake: str, settings: dict[str, str]) -> None:
    """What delta-spark finds, as JSON on the last line."""
    from clew.pipeline.spark.session import build_session

    # By default every table's log is replayed in 50 tasks.
    spark = build_session(conf={**settings, "spark.databricks.delta.snapshotPartitions": "1"})

    def rows(path: str) -> list[dict[str, Any]]:
        return list(spark.read.format("delta").load(path).toArrow().to_pylist())

    sys.stdout.write(f"\n{json.dumps(summarised(Path(lake), rows))}\n")
    spark.stop()
