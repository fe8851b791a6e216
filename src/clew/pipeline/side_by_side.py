"""Several jobs of Spark at a time: to plan one takes a core longer than to run it, on a small lake."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

S = TypeVar("S")
T = TypeVar("T")

# One per core of a laptop. All in one job, a plan of everything, takes twice the work to optimise.
_JOBS_AT_A_TIME = 2


def side_by_side(run: Callable[[DataFrame], T], frames: Mapping[str, DataFrame]) -> dict[str, T]:
    """What `run` makes of each frame; a fault of one is raised when all have ended."""
    with ThreadPoolExecutor(_JOBS_AT_A_TIME, thread_name_prefix="clew-job") as pool:
        # With the properties of the calling thread, such as its pool of the scheduler.
        running = {name: pool.submit(_inheriting(run, frame.sparkSession), frame) for name, frame in frames.items()}
    return {name: job.result() for name, job in running.items()}


def in_turn(run: Callable[[S], T], items: Iterable[S], spark: SparkSession) -> Iterator[T]:
    """What `run` makes of each item, in their order, by a job for each core; few results wait to be taken."""
    cores = spark.sparkContext.defaultParallelism
    running: deque[Future[T]] = deque()
    with ThreadPoolExecutor(cores, thread_name_prefix="clew-job") as pool:
        try:
            for item in items:
                running.append(pool.submit(_inheriting(run, spark), item))
                if len(running) > cores:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _inheriting(run: Callable[[S], T], spark: SparkSession) -> Callable[[S], T]:
    inheriting: Callable[[S], T] = inheritable_thread_target(spark)(run)
    return inheriting
