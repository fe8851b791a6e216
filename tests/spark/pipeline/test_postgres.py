"""The pipeline with its index in PostgreSQL: the same rows as in a file, taken in and rebuilt."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.oracle.packed import TABLES, VIEWS, index_facets

from clew.collector.intake import stream_of
from clew.collector.log import LogWriter, Received
from clew.home import Home, Place
from clew.index.places import store_of
from clew.index.reader import IndexReader
from clew.pipeline.status import status
from clew.pipeline.work import open_pipeline

CASES = sorted((Path(__file__).parents[2] / "cases" / "pipeline").iterdir())
# Which batch brought an event may differ, and so may how bodies are packed.
LEFT_OUT = {"meta", "batches", "dictionaries", "events", "rejected", "facets"}


def test_the_index_holds_what_a_file_would(tmp_path: Path, spark: SparkSession, postgres: str) -> None:
    url = f"{postgres}{'&' if '?' in postgres else '?'}schema=pipeline"
    file, database = Home(tmp_path / "file"), Home(tmp_path / "database", database=url)
    store_of(database.index).remove()
    for home in (file, database):
        take_in(home, spark)
    assert contents(database.index) == contents(file.index)
    with IndexReader(database.index) as reader:
        before = reader.progress()
    found = status(database).index
    assert found is not None
    assert (found.at, found.seq) == (before.at, before.seq)

    with open_pipeline(database, spark=spark, is_rebuilt=True) as pipeline:
        assert pipeline.take_new().events == 0
    assert contents(database.index) == contents(file.index)
    with IndexReader(database.index) as reader:
        assert reader.progress().identity != before.identity
    store_of(database.index).remove()


def take_in(home: Home, spark: SparkSession) -> None:
    """All golden cases at once."""
    bodies = [line for case in CASES for line in (case / "events.ndjson").read_bytes().splitlines()]
    home.create()
    with LogWriter(home.log) as log:
        log.append(Received(stream_of(body), "case", body) for body in bodies)
    with open_pipeline(home, spark=spark) as pipeline:
        assert pipeline.take_new().events > 0


def contents(place: Place) -> dict[str, list[str]]:
    with closing(store_of(place).reader(1.0)) as index:
        rows: dict[str, Any] = {name: index.plain(f"select * from {name}") for name in {*TABLES, *VIEWS} - LEFT_OUT}
        rows["facets"] = [tuple(row.values()) for row in index_facets(index)]
        return {name: sorted(repr(tuple(map(number, row))) for row in found) for name, found in rows.items()}


def number(value: Any) -> Any:
    """PostgreSQL tells truth from numbers."""
    return int(value) if isinstance(value, bool) else value
