"""Output: results on stdout, messages and progress on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console

if TYPE_CHECKING:
    from clew.cli.progress import ProgressDisplay

_PIPE_WIDTH = 240
# A narrower terminal wraps lines itself; truncated columns would be unreadable.
_MIN_WIDTH = 80


class _PlainConsole(Console):
    """Console without markup: names and paths may contain brackets and colons."""

    def __init__(self, *, is_stderr: bool, width: int | None = None, min_width: int = 0) -> None:
        super().__init__(stderr=is_stderr, soft_wrap=is_stderr, width=width, markup=False, emoji=False, highlight=False)
        self.width = max(self.width, min_width)

    def on_broken_pipe(self) -> None:
        """Let the command group handle a closed pipe."""
        raise BrokenPipeError


def stdout_console(min_width: int = _MIN_WIDTH) -> Console:
    """Return the console for results."""
    # A file or pipe has no width, and lines must not be truncated there.
    return _PlainConsole(is_stderr=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH, min_width=min_width)


def stderr_console() -> Console:
    """Return the console for messages."""
    return _PlainConsole(is_stderr=True)


def print_json(value: object) -> None:
    """Print a JSON document to stdout."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    sys.stdout.buffer.flush()


@contextmanager
def show_progress() -> Iterator[ProgressDisplay]:
    """Yield a progress reporter: a bar on a terminal, lines elsewhere."""
    # Imported here: it is a tenth of the start-up time, and most commands show no progress.
    from rich.progress import Progress

    from clew.cli.progress import BarProgress, LineProgress

    console = stderr_console()
    if not console.is_terminal or console.is_dumb_terminal:
        yield LineProgress(console)
        return
    with Progress(*BarProgress.columns(), console=console, transient=True) as progress:
        yield BarProgress(progress)
