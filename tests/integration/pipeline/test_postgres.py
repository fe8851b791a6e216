"""Tests of the pipeline with an index in PostgreSQL: rows equal those of SQLite, ingested and rebuilt."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.reference.facet_blobs import TABLES, VIEWS, index_facets
from tests.support.paths import PIPELINE_CASES

from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir, IndexLocation
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.index.backends import open_backend
from clew.index.queries.reader import IndexReader
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.status import read_status

CASES = sorted(PIPELINE_CASES.iterdir())
# Tables with the batch and compressed bodies, which may differ.
EXCLUDED = {"meta", "batches", "zstd_dictionaries", "events", "rejected", "facets"}


def test_rows_equal_those_of_sqlite(tmp_path: Path, spark: SparkSession, postgres: str) -> None:
    url = f"{postgres}{'&' if '?' in postgres else '?'}schema=pipeline"
    file, database = DataDir(tmp_path / "file"), DataDir(tmp_path / "database", database_url=url)
    open_backend(database.index).remove()
    for home in (file, database):
        ingest_cases(home, spark)
    assert read_index(database.index) == read_index(file.index)
    with IndexReader(database.index) as reader:
        before = reader.version()
    status = read_status(database).index
    assert status is not None
    assert (status.at, status.seq) == (before.indexed_at, before.indexed_seq)

    with open_pipeline(database, spark=spark, rebuild=True) as pipeline:
        assert pipeline.ingest_available().events == 0
    assert read_index(database.index) == read_index(file.index)
    with IndexReader(database.index) as reader:
        assert reader.version().identity != before.identity
    open_backend(database.index).remove()


def ingest_cases(home: DataDir, spark: SparkSession) -> None:
    """Ingest all golden cases at once."""
    bodies = [line for case in CASES for line in (case / "events.ndjson").read_bytes().splitlines()]
    home.create()
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(guess_stream(body), "case", body) for body in bodies)
    with open_pipeline(home, spark=spark) as pipeline:
        assert pipeline.ingest_available().events > 0


def read_index(location: IndexLocation) -> dict[str, list[str]]:
    with closing(open_backend(location).reader(1.0)) as index:
        rows: dict[str, Any] = {
            name: index.execute_tuples(f"select * from {name}") for name in {*TABLES, *VIEWS} - EXCLUDED
        }
        rows["facets"] = [tuple(row.values()) for row in index_facets(index)]
        return {
            name: sorted(repr(tuple(map(bool_to_int, row))) for row in table_rows) for name, table_rows in rows.items()
        }


def bool_to_int(value: Any) -> Any:
    """Convert PostgreSQL's booleans to SQLite's integers."""
    return int(value) if isinstance(value, bool) else value
