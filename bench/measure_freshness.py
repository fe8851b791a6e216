"""How long it takes from "appended to the log" to "visible in the index", at 200 events a second.

A pipeline streams in a process of its own. Here, 50 events are appended every quarter of a second, and the index is
looked at as its readers do, read only. The clock of an append starts when the log has acknowledged it, and stops when
its last event is visible.

python -m bench.measure_freshness [EVENTS]     a full round lasts a minute
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

from bench import generate
from bench.costs import measured
from bench.figures import Report
from bench.logs import SEED, received
from bench.rounds import asked_for, scratch

from clew.data_dir import DataDir
from clew.eventlog.segments import read_lines, split_ranges
from clew.eventlog.writer import LogWriter
from clew.index.backends.sqlite import MissingIndexError
from clew.index.queries.reader import IndexReader
from clew.pipeline.maintenance import MaintenanceConfig
from clew.pipeline.pipeline import open_pipeline

_SECONDS = 60
_SECONDS_BETWEEN_APPENDS = 0.25
_EVENTS_PER_APPEND = 50
_SECONDS_BETWEEN_LOOKS = 0.005
_PATIENCE_SECONDS = 120
_WARM_UP_APPENDS = 8


@dataclass(frozen=True)
class Appended:
    """When an append was acknowledged, and where its last event stands."""

    at: float
    seq: int


@dataclass
class Writer:
    """Appends events at a steady pace."""

    log: LogWriter
    events: Iterator[bytes]
    waiting: deque[Appended] = field(default_factory=deque)

    def append(self, times: int) -> None:
        """Append so many times, each a quarter of a second after the one before."""
        due = time.perf_counter()
        for _ in range(times):
            time.sleep(max(0.0, due - time.perf_counter()))
            start = self.log.position
            self.log.append(received(islice(self.events, _EVENTS_PER_APPEND)))
            at = time.perf_counter()
            self.waiting.append(Appended(at, last_event(self.log.folder, start, self.log.position)))
            due += _SECONDS_BETWEEN_APPENDS


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("freshness", asked)
    appends = round(asked.share(_SECONDS, at_least=10) / _SECONDS_BETWEEN_APPENDS)
    # More than are needed: the log keeps none twice.
    events = generate.events(2 * _EVENTS_PER_APPEND * (appends + _WARM_UP_APPENDS), SEED)
    ages: list[float] = []
    with scratch() as folder, LogWriter((home := DataDir(folder)).log) as log, streaming(home) as stream:
        writer = Writer(log, events)
        watch(writer, _WARM_UP_APPENDS, home, stream)
        cost = measured(lambda: ages.extend(watch(writer, appends, home, stream)))
    cuts = quantiles(ages, n=100, method="inclusive")
    report.say(f"{len(ages)} appends of {_EVENTS_PER_APPEND} events; {cost.cpu / cost.wall:.2f} cores in use")
    report.say(f"median {cuts[49]:.2f} s, 99th percentile {cuts[98]:.2f} s, longest {max(ages):.2f} s")
    report.at_most("appended → visible, 95th percentile", cuts[94], 1.5, " s")


@contextmanager
def streaming(home: DataDir) -> Iterator[BaseProcess]:
    """A pipeline at work in another process."""
    process = multiprocessing.get_context("spawn").Process(target=stream, args=(home,))
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.join()


def stream(home: DataDir) -> None:
    """Stream until told to stop, as `clew pipeline stream` does; only that here another process writes the log."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with open_pipeline(home) as pipeline:
        pipeline.stream(stop, maintenance=MaintenanceConfig())


def watch(writer: Writer, appends: int, home: DataDir, stream: BaseProcess) -> list[float]:
    """Append so many times, and tell how old the last event of each was when it became visible."""
    ages: list[float] = []
    thread = Thread(target=writer.append, args=(appends,))
    thread.start()
    while len(ages) < appends:
        ages += visible(writer.waiting, indexed_seq(home))
        require_progress(writer.waiting, stream)
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    thread.join()
    return ages


def indexed_seq(home: DataDir) -> int:
    """The position of the last event in the index, by a reader that has just come."""
    try:
        with IndexReader(home.index) as index:
            return int(index.meta("indexed_seq") or -1)
    except MissingIndexError:
        return -1


def visible(waiting: deque[Appended], seq: int) -> Iterator[float]:
    """Take out the appends that are visible by now, and give the age of each."""
    now = time.perf_counter()
    while waiting and waiting[0].seq <= seq:
        yield now - waiting.popleft().at


def last_event(log: Path, start: int, end: int) -> int:
    """The position of the last event between two positions."""
    return max(seq for part in split_ranges(log, start, end, end - start) for seq, _ in read_lines(part))


def require_progress(waiting: deque[Appended], stream: BaseProcess) -> None:
    """Give up on a pipeline that has died or stands still."""
    if not stream.is_alive():
        message = f"The pipeline has ended, with exit code {stream.exitcode}."
        raise RuntimeError(message)
    if waiting and time.perf_counter() - waiting[0].at > _PATIENCE_SECONDS:
        message = f"Nothing became visible for {_PATIENCE_SECONDS} seconds."
        raise RuntimeError(message)


if __name__ == "__main__":
    main()
