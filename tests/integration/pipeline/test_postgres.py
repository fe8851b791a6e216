"""The pipeline with its index in PostgreSQL: the same rows as in a file, taken in and rebuilt."""

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
# Which batch brought an event may differ, and so may how bodies are packed.
LEFT_OUT = {"meta", "batches", "zstd_dictionaries", "events", "rejected", "facets"}


def test_the_index_holds_what_a_file_would(tmp_path: Path, spark: SparkSession, postgres: str) -> None:
    url = f"{postgres}{'&' if '?' in postgres else '?'}schema=pipeline"
    file, database = DataDir(tmp_path / "file"), DataDir(tmp_path / "database", database_url=url)
    open_backend(database.index).remove()
    for home in (file, database):
        take_in(home, spark)
    assert contents(database.index) == contents(file.index)
    with IndexReader(database.index) as reader:
        before = reader.version()
    found = read_status(database).index
    assert found is not None
    assert (found.at, found.seq) == (before.indexed_at, before.indexed_seq)

    with open_pipeline(database, spark=spark, rebuild=True) as pipeline:
        assert pipeline.ingest_available().events == 0
    assert contents(database.index) == contents(file.index)
    with IndexReader(database.index) as reader:
        assert reader.version().identity != before.identity
    open_backend(database.index).remove()


def take_in(home: DataDir, spark: SparkSession) -> None:
    """All golden cases at once."""
    bodies = [line for case in CASES for line in (case / "events.ndjson").read_bytes().splitlines()]
    home.create()
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(guess_stream(body), "case", body) for body in bodies)
    with open_pipeline(home, spark=spark) as pipeline:
        assert pipeline.ingest_available().events > 0


def contents(place: IndexLocation) -> dict[str, list[str]]:
    with closing(open_backend(place).reader(1.0)) as index:
        rows: dict[str, Any] = {
            name: index.execute_tuples(f"select * from {name}") for name in {*TABLES, *VIEWS} - LEFT_OUT
        }
        rows["facets"] = [tuple(row.values()) for row in index_facets(index)]
        return {name: sorted(repr(tuple(map(number, row))) for row in found) for name, found in rows.items()}


def number(value: Any) -> Any:
    """PostgreSQL tells truth from numbers."""
    return int(value) if isinstance(value, bool) else value
