"""Jobs that run at the same time."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import DataFrame, SparkSession

from clew.pipeline.spark.dataframes import run_concurrently


@pytest.fixture
def frames(spark: SparkSession) -> dict[str, DataFrame]:
    return {str(rows): spark.range(rows) for rows in range(4)}


def test_each_frame_has_its_result_and_is_counted(frames: dict[str, DataFrame]) -> None:
    told: list[tuple[int, int]] = []
    counts = run_concurrently(DataFrame.count, frames, lambda *far: told.append(far))
    assert counts == {"0": 0, "1": 1, "2": 2, "3": 3}
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_fault_is_raised_when_all_have_ended(frames: dict[str, DataFrame]) -> None:
    told: list[tuple[int, int]] = []
    with pytest.raises(ZeroDivisionError):
        run_concurrently(lambda frame: 1 // frame.count(), frames, lambda *far: told.append(far))
    assert told[-1] == (4, 4)


def test_who_interrupts_waits_for_no_job_and_begins_no_other(frames: dict[str, DataFrame]) -> None:
    names = {id(frame): name for name, frame in frames.items()}
    begun: set[str] = set()
    is_released = threading.Event()

    def run(frame: DataFrame) -> None:
        name = names[id(frame)]
        begun.add(name)
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
    assert "3" not in begun
