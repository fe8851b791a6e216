"""Tests of concurrent Spark jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from clew.pipeline.spark.dataframes import map_ordered, run_concurrently


@pytest.fixture
def frames(spark: SparkSession) -> dict[str, DataFrame]:
    return {str(rows): spark.range(rows) for rows in range(4)}


def test_returns_results_in_order_and_reports_each(spark: SparkSession, frames: dict[str, DataFrame]) -> None:
    done: list[None] = []
    counts = run_concurrently(spark, [frame.count for frame in frames.values()], lambda: done.append(None))
    assert counts == [0, 1, 2, 3]
    assert len(done) == 4


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("is_planning", [True, False], ids=["planning", "running"])
def test_an_error_cancels_other_jobs(spark: SparkSession, error: type[BaseException], is_planning: bool) -> None:
    started, failed, ended = threading.Event(), threading.Event(), threading.Event()
    fast, slow = spark.range(1), spark.range(1).mapInArrow(sleep_for_an_hour, "id long")

    def run(frame: DataFrame) -> None:
        if frame is fast:
            assert started.wait(60)
            return
        started.set()
        try:
            if is_planning:
                assert failed.wait(60)
            frame.collect()
        finally:
            ended.set()

    def fail() -> None:
        raise error

    with pytest.raises(error):
        run_concurrently(spark, [partial(run, fast), partial(run, slow)], fail)
    failed.set()
    assert ended.wait(60)


def sleep_for_an_hour(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(3600)
        yield batch


def test_map_ordered_cancels_jobs_of_a_closed_iterator(spark: SparkSession) -> None:
    started, ended = threading.Event(), threading.Event()

    def run(number: int) -> int:
        if number:
            started.set()
            try:
                spark.range(1).mapInArrow(sleep_for_an_hour, "id long").collect()
            finally:
                ended.set()
        return number

    cores = spark.sparkContext.defaultParallelism
    results = map_ordered(run, [0, *range(1, cores + 1)], spark)
    assert next(results) == 0
    assert started.wait(60)
    results.close()  # type: ignore[attr-defined]
    assert ended.wait(60)


def test_interrupt_does_not_wait_and_starts_no_job(spark: SparkSession, frames: dict[str, DataFrame]) -> None:
    started: set[str] = set()
    is_released = threading.Event()

    def run(name: str) -> None:
        started.add(name)
        if name != "0":
            is_released.wait()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_concurrently(spark, [partial(run, name) for name in frames], interrupt)
    is_released.set()
    for thread in threading.enumerate():
        if thread.name.startswith("clew-job"):
            thread.join()
    assert "3" not in started
