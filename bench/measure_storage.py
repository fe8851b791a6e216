"""Benchmark: bytes per event in compacted tables and in the index, and bytes that a look-up of one run reads.

Look-ups by `run_uuid` are made with deltalake, DuckDB and Spark. Bytes are those that the processes read from files,
footers included, according to the kernel.

python -m bench.measure_storage [EVENTS]
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from bench.figures import Baseline, Report
from bench.logs import open_log
from bench.plain import measure_gzip_bytes
from bench.processes import list_process_tree
from bench.rounds import parse_run_size, scratch_folder
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clew.data_dir import DataDir
from clew.lake.history import read_table_sizes
from clew.lake.schemas import EVENT_TABLE_NAMES, FACET_TABLES, LINEAGE_EVENTS
from clew.pipeline.spark.session import build_session

_TABLES = (LINEAGE_EVENTS, *FACET_TABLES)


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("storage", run_size)
    log = open_log(run_size.events)
    with scratch_folder() as folder:
        home = log.create_home(folder / "home")
        run_clew("pipeline", "run", home=home)
        run_clew("pipeline", "compact", "--retention-hours", "0", "--force", home=home)
        sizes = {size.name: size.bytes / log.events for size in read_table_sizes(home.lake)}
        on_disk = sum(path.stat().st_size for path in home.lake_folder.rglob("*") if path.is_file()) / log.events
        index = home.index_file.stat().st_size / log.events
        for name in EVENT_TABLE_NAMES:
            report.log(f"{name:16} {sizes[name]:6,.0f} bytes per event")
        events = sum(sizes[name] for name in EVENT_TABLE_NAMES)
        report.log(f"log {log.end / log.events:,.0f}; derived tables {sum(sizes.values()) - events:,.0f}")
        report.log(f"all files of the lake {on_disk:,.0f}, index {index:,.0f}")
        report.check_max(
            "event tables after compaction",
            events,
            1_500,
            " bytes per event",
            baseline=Baseline("one event per line, gzip -6, without facet tables", measure_gzip_bytes(log.bodies())),
        )
        report.compare("event tables after compaction / raw events", 100 * events * log.events / log.end, " %")
        measure_look_ups(home.lake_folder, report)


def run_clew(*command: str, home: DataDir) -> None:
    """Run a clew command."""
    subprocess.run([sys.executable, "-m", "clew", *command, "--home", str(home.root)], check=True)


def measure_look_ups(lake: Path, report: Report) -> None:
    """Measure look-ups of the run in the middle of each table."""
    spark = build_session()
    for table in _TABLES:
        files = DeltaTable(lake / table.name).file_uris()
        run = find_middle_run(files)
        groups = [count_row_groups(file, run) for file in files]
        column = "event" if table is LINEAGE_EVENTS else "facet"
        engines: dict[str, Callable[[str], int]] = {
            "deltalake": partial(query_deltalake, lake / table.name, column),
            "DuckDB": partial(query_duckdb, files, column),
            "Spark": partial(query_spark, spark, files, column),
        }
        table_bytes = sum(Path(file).stat().st_size for file in files)
        measured = ", ".join(f"{name} {measure_bytes(query, run):,} KB" for name, query in engines.items())
        report.log(f"a run in {table.name}, {table_bytes >> 10:,} KB: {measured}")
        report.check_max(f"row groups of a file of {table.name} that a look-up of a run reads", max(groups), 2, "")


def find_middle_run(files: list[str]) -> str:
    """Return the run in the middle of a table."""
    runs = sorted(run for file in files for run in pq.read_table(file, columns=["run_uuid"])["run_uuid"].to_pylist())
    return str(runs[len(runs) // 2])


def count_row_groups(file: str, run: str) -> int:
    """Count the row groups of a file that may contain a run, by their statistics."""
    footer = pq.read_metadata(file)
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    statistics = [column.statistics for column in columns if column.path_in_schema == "run_uuid"]
    return sum(bounds is None or bounds.min <= run <= bounds.max for bounds in statistics)


def query_deltalake(table: Path, column: str, run: str) -> int:
    """Look up a run with deltalake."""
    query = QueryBuilder().register("rows", DeltaTable(table))
    return query.execute(f"select {column} from rows where run_uuid = '{run}'").read_all().num_rows  # noqa: S608


def query_duckdb(files: list[str], column: str, run: str) -> int:
    """Look up a run with DuckDB."""
    statement = f"select {column} from read_parquet(?) where run_uuid = ?"  # noqa: S608
    return len(duckdb.connect().execute(statement, [files, run]).fetchall())


def query_spark(spark: SparkSession, files: list[str], column: str, run: str) -> int:
    """Look up a run with Spark."""
    rows: int = spark.read.parquet(*files).where(F.col("run_uuid") == run).select(column).toArrow().num_rows
    return rows


def measure_bytes(query: Callable[[str], int], run: str) -> int:
    """Return the kilobytes that this process and its descendants read during a query, after a warm-up."""
    query("")
    before = _bytes_read()
    if not query(run):
        raise AssertionError(f"the run {run} was not found")
    return (_bytes_read() - before) >> 10


def _bytes_read() -> int:
    texts = [Path(f"/proc/{process.id}/io").read_text() for process in list_process_tree(os.getpid())]
    return sum(int(text.partition(":")[2].partition("\n")[0]) for text in texts)


if __name__ == "__main__":
    main()
