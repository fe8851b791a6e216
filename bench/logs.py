"""Logs of generated events, made once for each size and then used by every measure."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench import generate
from bench.rounds import BUILD

from clew.data_dir import DataDir
from clew.eventlog import writer as writing
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream

SEED = 7
_PER_APPEND = 600
_COUNT = "count"


@dataclass(frozen=True)
class Log:
    """A log and how many events it holds: fewer than were generated, for it keeps none twice."""

    folder: Path
    events: int

    @property
    def end(self) -> int:
        """Its size in bytes."""
        return end_position(self.folder)

    def home(self, root: Path) -> DataDir:
        """A new home with this log."""
        home = DataDir(root).create()
        home.log.symlink_to(self.folder)
        return home

    def bodies(self) -> Iterator[bytes]:
        """Its events, as they came."""
        for part in split_ranges(self.folder, 0, self.end, self.end):
            yield from (decode_record(text).body for _, text in read_lines(part))


def log_of(count: int) -> Log:
    """A log of so many generated events; the one that was made before, unless what makes it has changed since."""
    folder = BUILD / "logs" / str(count)
    done = folder / _COUNT
    changed = max(Path(str(module.__file__)).stat().st_mtime for module in (generate, writing))
    if not done.exists() or done.stat().st_mtime < changed:
        shutil.rmtree(folder, ignore_errors=True)
        with LogWriter(folder) as log:
            stored = sum(log.append(received(some)) for some in _groups(generate.events(count, SEED)))
        done.write_text(str(stored))
    return Log(folder, int(done.read_text()))


def received(bodies: Iterable[bytes]) -> list[IncomingEvent]:
    """Events as the log takes them."""
    return [IncomingEvent(Stream.OPENLINEAGE, "bench", body) for body in bodies]


def _groups(bodies: Iterator[bytes]) -> Iterator[list[bytes]]:
    while group := list(islice(bodies, _PER_APPEND)):
        yield group
