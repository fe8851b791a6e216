"""Tests of concurrent Spark jobs."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import DataFrame, SparkSession

from clew.pipeline.spark.dataframes import run_concurrently


@pytest.fixture
def frames(spark: SparkSession) -> dict[str, DataFrame]:
    return {str(rows): spark.range(rows) for rows in range(4)}


def test_returns_results_and_reports_progress(frames: dict[str, DataFrame]) -> None:
    progress: list[tuple[int, int]] = []
    counts = run_concurrently(DataFrame.count, frames, lambda *counts_done: progress.append(counts_done))
    assert counts == {"0": 0, "1": 1, "2": 2, "3": 3}
    assert progress == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_raises_an_error_after_all_jobs_ended(frames: dict[str, DataFrame]) -> None:
    progress: list[tuple[int, int]] = []
    with pytest.raises(ZeroDivisionError):
        run_concurrently(lambda frame: 1 // frame.count(), frames, lambda *counts_done: progress.append(counts_done))
    assert progress[-1] == (4, 4)


def test_interrupt_does_not_wait_and_starts_no_job(frames: dict[str, DataFrame]) -> None:
    names = {id(frame): name for name, frame in frames.items()}
    started: set[str] = set()
    is_released = threading.Event()

    def run(frame: DataFrame) -> None:
        name = names[id(frame)]
        started.add(name)
        if name != "0":
            is_released.wait()

    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_concurrently(run, frames, interrupt)
    is_released.set()
    for thread in threading.enumerate():
        if thread.name == "clew-job":
            thread.join()
    assert "3" not in started
