"""Logs of generated events, written once per size and shared by all benchmarks."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench import generate
from bench.rounds import BUILD

from clew.data_dir import DataDir
from clew.eventlog import writer as writer_module
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream

SEED = 7
_EVENTS_PER_APPEND = 600
_COUNT_FILE = "count"


@dataclass(frozen=True)
class Log:
    """Log and its number of events: fewer than generated, because duplicates are not stored."""

    folder: Path
    events: int

    @property
    def end(self) -> int:
        """Size in bytes."""
        return end_position(self.folder)

    def create_home(self, root: Path) -> DataDir:
        """Create a data directory with this log."""
        home = DataDir(root).create()
        home.log.symlink_to(self.folder)
        return home

    def bodies(self) -> Iterator[bytes]:
        """Read the bodies of all events."""
        for range_ in split_ranges(self.folder, 0, self.end, self.end):
            yield from (decode_record(line).body for _, line in read_lines(range_))


def open_log(count: int) -> Log:
    """Open a log of generated events; it is written again if the generator or the log writer has changed."""
    folder = BUILD / "logs" / str(count)
    count_file = folder / _COUNT_FILE
    last_change = max(Path(str(module.__file__)).stat().st_mtime for module in (generate, writer_module))
    if not count_file.exists() or count_file.stat().st_mtime < last_change:
        shutil.rmtree(folder, ignore_errors=True)
        log = write_log(folder, generate.generate_events(count, SEED))
        count_file.write_text(str(log.events))
    return Log(folder, int(count_file.read_text()))


def write_log(folder: Path, bodies: Iterator[bytes]) -> Log:
    """Write a log of events."""
    with LogWriter(folder) as log:
        return Log(folder, sum(log.append(to_incoming(batch)) for batch in _batched(bodies)))


def to_incoming(bodies: Iterable[bytes]) -> list[IncomingEvent]:
    """Wrap bodies as incoming events."""
    return [IncomingEvent(Stream.OPENLINEAGE, "bench", body) for body in bodies]


def _batched(bodies: Iterator[bytes]) -> Iterator[list[bytes]]:
    while batch := list(islice(bodies, _EVENTS_PER_APPEND)):
        yield batch
