"""Tests of large events: the rows of all tables are linear in the number of inputs, outputs, columns and parents."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import append_events, read_tables, run_pipeline
from tests.support.large_events import LARGE_EVENTS

from clew.data_dir import DataDir
from clew.lake.lake import Lake

SIZES = 60, 240
LARGE_TRIGGER = 1 << 24


@pytest.fixture(scope="module")
def row_counts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Counter[str]]:
    """Ingest the events of all kinds at two sizes, and count the rows of each table."""
    counts = []
    for size in SIZES:
        home = DataDir(tmp_path_factory.mktemp(f"size-{size}"))
        append_events(home, *(body for make_events in LARGE_EVENTS.values() for body in make_events(size)))
        run_pipeline(home, spark, LARGE_TRIGGER)
        counts.append(Counter({name: len(rows) for name, rows in read_tables(home).items()}))
    return counts


def test_rows_are_linear_in_the_size_of_events(row_counts: list[Counter[str]]) -> None:
    small, large = row_counts
    assert small.keys() == large.keys()
    factor = SIZES[1] / SIZES[0]
    # A facet may become large enough for a table of its own.
    grown = {name: (small[name], large[name]) for name in small if large[name] > 1.2 * factor * max(1, small[name])}
    assert grown == {}


def test_outputs_of_many_inputs_have_their_job_as_source(
    spark: SparkSession, tmp_path: Path, row_counts: list[Counter[str]]
) -> None:
    home = DataDir(tmp_path)
    append_events(home, *LARGE_EVENTS["replication"](SIZES[0]))
    run_pipeline(home, spark, LARGE_TRIGGER)
    table = Lake(home.lake).table("dataset_edges")
    assert table is not None
    rows = table.to_pyarrow_table().to_pylist()
    assert {row["dataset_name"] for row in rows} == {f"replication.out{number}" for number in range(SIZES[0])}
    assert {(row["source_name"], row["job_name"], row["origin"]) for row in rows} == {(None, "replication", "io")}
    assert len(rows) == SIZES[0]
    assert row_counts
