"""Several jobs of Spark at a time: to plan one takes a core longer than to run it, on a small lake."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from threading import Thread
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

S = TypeVar("S")
T = TypeVar("T")

# One per core of a laptop. All in one job, a plan of everything, takes twice the work to optimise.
_JOBS_AT_A_TIME = 2


def side_by_side(
    run: Callable[[DataFrame], T], frames: Mapping[str, DataFrame], headway: Callable[[int, int], object]
) -> dict[str, T]:
    """What `run` makes of each frame; a fault of one is raised when all have ended. `headway` hears how many have."""
    jobs: dict[str, Future[T]] = {name: Future() for name in frames}
    left = deque((jobs[name], frame) for name, frame in frames.items())

    def work() -> None:
        with suppress(IndexError):
            while True:
                _settle(*left.popleft(), run)

    # With the properties of this thread, such as its pool of the scheduler.
    session = next(iter(frames.values())).sparkSession
    for _ in range(_JOBS_AT_A_TIME):
        # No pool of threads: an interrupted process would wait for those, and a job may take minutes.
        Thread(target=inheritable_thread_target(session)(work), name="clew-job", daemon=True).start()
    try:
        for done, _ in enumerate(as_completed(jobs.values()), 1):
            headway(done, len(jobs))
    finally:
        for job in jobs.values():
            job.cancel()
    return {name: job.result() for name, job in jobs.items()}


def in_turn(run: Callable[[S], T], items: Iterable[S], spark: SparkSession) -> Iterator[T]:
    """What `run` makes of each item, in their order, by a job for each core; few results wait to be taken."""
    cores = spark.sparkContext.defaultParallelism
    running: deque[Future[T]] = deque()
    inheriting = inheritable_thread_target(spark)(run)
    with ThreadPoolExecutor(cores, thread_name_prefix="clew-job") as pool:
        try:
            for item in items:
                running.append(pool.submit(inheriting, item))
                if len(running) > cores:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _settle(job: Future[T], frame: DataFrame, run: Callable[[DataFrame], T]) -> None:
    if job.set_running_or_notify_cancel():
        try:
            job.set_result(run(frame))
        except BaseException as fault:  # noqa: BLE001  # raised where the result is asked for
            job.set_exception(fault)
