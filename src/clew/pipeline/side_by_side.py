"""Several jobs of Spark at a time: to plan one takes a core longer than to run it, on a small lake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

# One per core of a laptop. All in one job, a plan of everything, takes twice the work to optimise.
_JOBS_AT_A_TIME = 2


def side_by_side(run: Callable[[DataFrame], T], frames: Mapping[str, DataFrame]) -> dict[str, T]:
    """What `run` makes of each frame; a fault of one is raised when all have ended."""
    with ThreadPoolExecutor(_JOBS_AT_A_TIME, thread_name_prefix="clew-job") as pool:
        # With the properties of the calling thread, such as its pool of the scheduler.
        running = {name: pool.submit(_inheriting(run, frame.sparkSession), frame) for name, frame in frames.items()}
    return {name: job.result() for name, job in running.items()}


def _inheriting(run: Callable[[DataFrame], T], spark: SparkSession) -> Callable[[DataFrame], T]:
    inheriting: Callable[[DataFrame], T] = inheritable_thread_target(spark)(run)
    return inheriting
