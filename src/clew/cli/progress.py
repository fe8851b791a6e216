"""Progress of long operations: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from clew.cli.output import format_count, format_duration

_SECONDS_BETWEEN_LINES = 5.0

Clock = Callable[[], float]


class ProgressDisplay(Protocol):
    """Callable that starts a task with a message; `step` reports bytes done, total bytes and events so far."""

    def __call__(self, message: str, /) -> None:
        """Start the next task."""

    def step(self, done: int, total: int, events: int) -> None:
        """Report progress."""


class Throughput:
    """Events per second and remaining time since the start of a task."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()

    def format(self, done: int, total: int, events: int) -> str:
        """Format as `12,000 events, 2,400 events/s, 3.0 s left`."""
        seconds = max(self._clock() - self._start, 0.001)
        remaining = (
            "" if done >= total or not done else f", {format_duration(1000 * seconds * (total - done) / done)} left"
        )
        return f"{format_count(events, 'event')}, {events / seconds:,.0f} events/s{remaining}"


class LineProgress:
    """Progress for a file or pipe: a line per task, and one every few seconds."""

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self("")

    def __call__(self, message: str) -> None:
        """Start the next task."""
        if message:
            self._console.print(f"{message} …")
        self._message = message
        self._throughput = Throughput(self._clock)
        self._next_line_at = self._clock() + _SECONDS_BETWEEN_LINES

    def step(self, done: int, total: int, events: int) -> None:
        """Print progress at most every few seconds."""
        if self._clock() >= self._next_line_at:
            percent = 100 * done // max(total, 1)
            self._console.print(f"{self._message}: {percent} %, {self._throughput.format(done, total, events)}")
            self._next_line_at = self._clock() + _SECONDS_BETWEEN_LINES


class BarProgress:
    """Progress for a terminal: a spinner, and a bar once the total is known."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, details="")
        self._throughput = Throughput()

    @classmethod
    def columns(cls) -> tuple[ProgressColumn, ...]:
        """Return the columns of the progress line."""
        description, details = (
            TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[details]")
        )
        return SpinnerColumn(), description, _DeterminateBar(bar_width=24), details

    def __call__(self, message: str) -> None:
        """Start the next task."""
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(f"{message} …", total=None, details="")
        self._throughput = Throughput()

    def step(self, done: int, total: int, events: int) -> None:
        """Update the bar."""
        details = self._throughput.format(done, total, events)
        self._progress.update(self._task, completed=done, total=max(total, 1), details=details)


class _DeterminateBar(BarColumn):
    """Bar that is shown once the total is known."""

    def render(self, task: Task) -> ProgressBar | Text:  # type: ignore[override]
        return Text("") if task.total is None else super().render(task)
