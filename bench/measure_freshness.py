"""Benchmark: latency from "appended to the log" to "visible in the index", at 200 events per second.

A pipeline streams in a separate process. This process appends 50 events every quarter of a second, and polls the index
with a read-only connection, like its readers. The latency of an append starts when the log has acknowledged it, and
ends when its last event is visible.

python -m bench.measure_freshness [EVENTS]     a full run takes half a minute
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import quantiles
from threading import Event, Thread
from typing import Protocol

from bench import generate
from bench.costs import measure_cost
from bench.figures import Baseline, Report
from bench.logs import SEED, to_incoming
from bench.postgres import insert_rows_in_process, make_row, start_with_table
from bench.rounds import parse_run_size, scratch_folder

from clew.data_dir import DataDir
from clew.eventlog.segments import read_lines, split_ranges
from clew.eventlog.writer import LogWriter
from clew.index.backends.sqlite import MissingIndexError
from clew.index.queries.reader import IndexReader
from clew.pipeline.maintenance import MaintenanceConfig
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.sources.event_source import LOG, EventSource

_SECONDS = 30
_APPEND_INTERVAL_SECONDS = 0.25
_EVENTS_PER_APPEND = 50
_POLL_SECONDS = 0.005
_TIMEOUT_SECONDS = 120
_WARM_UP_APPENDS = 8
_BASELINE_APPENDS = 20


@dataclass(frozen=True)
class PendingAppend:
    """Time of the acknowledgement of an append, and the position of its last event."""

    acknowledged_at: float
    seq: int


class PacedAppends(Protocol):
    """Appends events at a constant rate; `pending` are those that are not visible yet."""

    pending: deque[PendingAppend]

    def append(self, count: int) -> None:
        """Append a number of times."""


@dataclass
class PacedWriter:
    """Writer that appends events at a constant rate."""

    log: LogWriter
    events: Iterator[bytes]
    pending: deque[PendingAppend] = field(default_factory=deque)

    def append(self, count: int) -> None:
        """Append a number of times, at a fixed interval."""
        due = time.perf_counter()
        for _ in range(count):
            time.sleep(max(0.0, due - time.perf_counter()))
            start = self.log.position
            self.log.append(to_incoming(islice(self.events, _EVENTS_PER_APPEND)))
            acknowledged_at = time.perf_counter()
            self.pending.append(
                PendingAppend(acknowledged_at, find_last_event(self.log.folder, start, self.log.position))
            )
            due += _APPEND_INTERVAL_SECONDS


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("freshness", run_size)
    appends = round(run_size.scale(_SECONDS, minimum=2) / _APPEND_INTERVAL_SECONDS)
    # More than needed, because the log does not store duplicates.
    events = generate.generate_events(2 * _EVENTS_PER_APPEND * (appends + _WARM_UP_APPENDS), SEED)
    ages: list[float] = []
    with scratch_folder() as folder, LogWriter((home := DataDir(folder)).log) as log, run_stream(home) as stream:
        writer = PacedWriter(log, events)
        measure_ages(writer, _WARM_UP_APPENDS, home, stream)
        cost = measure_cost(lambda: ages.extend(measure_ages(writer, appends, home, stream)))
    cuts = quantiles(ages, n=100, method="inclusive")
    report.log(f"{len(ages)} appends of {_EVENTS_PER_APPEND} events; {cost.cpu / cost.wall:.2f} cores in use")
    report.log(f"median {cuts[49]:.2f} s, 99th percentile {cuts[98]:.2f} s, longest {max(ages):.2f} s")
    report.check_max(
        "appended → visible, 95th percentile",
        cuts[94],
        1.5,
        " s",
        baseline=Baseline("INSERT of the same events in PostgreSQL, one connection, 95th percentile", insert_p95()),
    )


def insert_p95() -> float:
    """Measure how long PostgreSQL needs to make the events of one append visible, in transactions of one event each."""
    rows = map(make_row, generate.generate_events(_BASELINE_APPENDS * _EVENTS_PER_APPEND, SEED))
    with scratch_folder() as folder, start_with_table(folder / "postgres") as (url, _):
        seconds = [
            insert_rows_in_process(url, list(islice(rows, _EVENTS_PER_APPEND)), 1).seconds
            for _ in range(_BASELINE_APPENDS)
        ]
    return quantiles(seconds, n=100, method="inclusive")[94]


@contextmanager
def run_stream(home: DataDir, source: EventSource = LOG) -> Iterator[BaseProcess]:
    """Run a pipeline in another process."""
    process = multiprocessing.get_context("spawn").Process(target=stream, args=(home, source))
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.join()


def stream(home: DataDir, source: EventSource = LOG) -> None:
    """Stream until SIGTERM, like `clew pipeline stream`, but without writing to the log."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with open_pipeline(home, source=source) as pipeline:
        pipeline.stream(stop, maintenance=MaintenanceConfig())


def measure_ages(writer: PacedAppends, appends: int, home: DataDir, stream: BaseProcess) -> list[float]:
    """Append a number of times, and measure the age of each last event when it becomes visible."""
    ages: list[float] = []
    thread = Thread(target=writer.append, args=(appends,))
    thread.start()
    while len(ages) < appends:
        ages += pop_visible(writer.pending, read_indexed_seq(home))
        check_progress(writer.pending, stream)
        time.sleep(_POLL_SECONDS)
    thread.join()
    return ages


def read_indexed_seq(home: DataDir) -> int:
    """Read the position of the last event in the index, with a new reader."""
    try:
        with IndexReader(home.index) as index:
            return int(index.meta("indexed_seq") or -1)
    except MissingIndexError:
        return -1


def pop_visible(pending: deque[PendingAppend], seq: int) -> Iterator[float]:
    """Remove the visible appends, and yield their ages."""
    now = time.perf_counter()
    while pending and pending[0].seq <= seq:
        yield now - pending.popleft().acknowledged_at


def find_last_event(log: Path, start: int, end: int) -> int:
    """Find the position of the last event between two positions."""
    return max(seq for range_ in split_ranges(log, start, end, end - start) for seq, _ in read_lines(range_))


def check_progress(pending: deque[PendingAppend], stream: BaseProcess) -> None:
    """Raise an error if the pipeline has ended or makes no progress."""
    if not stream.is_alive():
        message = f"The pipeline ended with exit code {stream.exitcode}."
        raise RuntimeError(message)
    if pending and time.perf_counter() - pending[0].acknowledged_at > _TIMEOUT_SECONDS:
        message = f"Nothing became visible for {_TIMEOUT_SECONDS} seconds."
        raise RuntimeError(message)


if __name__ == "__main__":
    main()
