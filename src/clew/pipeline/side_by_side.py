"""Concurrent Spark jobs: on a small lake, planning a job is slower than running it."""

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

# One per core of a small machine. A single job for all tables needs twice the time to optimise.
_MAX_CONCURRENT_JOBS = 2


def run_concurrently(
    run: Callable[[DataFrame], T], frames: Mapping[str, DataFrame], on_progress: Callable[[int, int], object]
) -> dict[str, T]:
    """Apply `run` to each DataFrame concurrently; an error is raised when all jobs have ended."""
    jobs: dict[str, Future[T]] = {name: Future() for name in frames}
    pending = deque((jobs[name], frame) for name, frame in frames.items())

    def work() -> None:
        with suppress(IndexError):
            while True:
                _run_job(*pending.popleft(), run)

    # Threads inherit the local properties, such as the scheduler pool.
    session = next(iter(frames.values())).sparkSession
    for _ in range(_MAX_CONCURRENT_JOBS):
        # Daemon threads: an interrupted process would wait for a thread pool, and a job may run for minutes.
        Thread(target=inheritable_thread_target(session)(work), name="clew-job", daemon=True).start()
    try:
        for done, _ in enumerate(as_completed(jobs.values()), 1):
            on_progress(done, len(jobs))
    finally:
        for job in jobs.values():
            job.cancel()
    return {name: job.result() for name, job in jobs.items()}


def map_ordered(run: Callable[[S], T], items: Iterable[S], spark: SparkSession) -> Iterator[T]:
    """Apply `run` to each item with one job per core; yield results in order, with a bounded number pending."""
    cores = spark.sparkContext.defaultParallelism
    running: deque[Future[T]] = deque()
    run_inherited = inheritable_thread_target(spark)(run)
    with ThreadPoolExecutor(cores, thread_name_prefix="clew-job") as pool:
        try:
            for item in items:
                running.append(pool.submit(run_inherited, item))
                if len(running) > cores:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _run_job(job: Future[T], frame: DataFrame, run: Callable[[DataFrame], T]) -> None:
    if job.set_running_or_notify_cancel():
        try:
            job.set_result(run(frame))
        except BaseException as error:  # noqa: BLE001  # raised by Future.result
            job.set_exception(error)
