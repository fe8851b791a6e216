"""How far a long piece of work is: a bar where one can move, plain lines now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from clew.cli.figures import counted, duration

_SECONDS_BETWEEN_LINES = 5.0

Clock = Callable[[], float]


class Telling(Protocol):
    """Call it with what is being done; `step` tells how much of it: bytes done, bytes in all, events so far."""

    def __call__(self, message: str, /) -> None:
        """Begin another piece of work."""

    def step(self, done: int, total: int, events: int) -> None:
        """Tell how far it is."""


class Pace:
    """Events a second, and how long the rest will take, since the work began."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()

    def words(self, done: int, total: int, events: int) -> str:
        """`12,000 events, 2,400 events/s, 3.0 s left`."""
        seconds = max(self._clock() - self._start, 0.001)
        left = "" if done >= total or not done else f", {duration(1000 * seconds * (total - done) / done)} left"
        return f"{counted(events, 'event')}, {events / seconds:,.0f} events/s{left}"


class Lines:
    """For a file or a pipe: a line for each piece of work, and one every few seconds while it goes on."""

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self("")

    def __call__(self, message: str) -> None:
        """Begin another piece of work."""
        if message:
            self._console.print(f"{message} …")
        self._message = message
        self._pace = Pace(self._clock)
        self._next = self._clock() + _SECONDS_BETWEEN_LINES

    def step(self, done: int, total: int, events: int) -> None:
        """Tell how far it is, unless that was told a moment ago."""
        if self._clock() >= self._next:
            share = f"{100 * done // max(total, 1)} %"
            self._console.print(f"{self._message}: {share}, {self._pace.words(done, total, events)}")
            self._next = self._clock() + _SECONDS_BETWEEN_LINES


class Bar:
    """For a terminal: a spinner, and a bar as soon as it is known how much there is."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._task = shown.add_task("", total=None, words="")
        self._pace = Pace()

    @classmethod
    def columns(cls) -> tuple[ProgressColumn, ...]:
        """What a line of it shows."""
        description, words = (
            TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[words]")
        )
        return SpinnerColumn(), description, _KnownBar(bar_width=24), words

    def __call__(self, message: str) -> None:
        """Begin another piece of work."""
        self._shown.remove_task(self._task)
        self._task = self._shown.add_task(f"{message} …", total=None, words="")
        self._pace = Pace()

    def step(self, done: int, total: int, events: int) -> None:
        """Move on."""
        words = self._pace.words(done, total, events)
        self._shown.update(self._task, completed=done, total=max(total, 1), words=words)


class _KnownBar(BarColumn):
    """A bar, once it is known how long it is."""

    def render(self, task: Task) -> ProgressBar | Text:  # type: ignore[override]
        return Text("") if task.total is None else super().render(task)
