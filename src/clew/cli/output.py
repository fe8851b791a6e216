"""Output: results on stdout, messages on stderr, number formats."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console

from clew.errors import ClewError

if TYPE_CHECKING:
    from rich.table import Table

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


def print_json_line(value: object) -> None:
    """Print a value to stdout as one line of JSON."""
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


def new_table(*titles: str, right: Collection[str] = (), no_wrap: Collection[str] = ()) -> Table:
    """Create a table without borders, with a header if it has titles; the columns `right` are aligned to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", show_header=bool(titles))
    for title in titles:
        table.add_column(title, justify="right" if title in right else "left", no_wrap=title in no_wrap)
    return table


def write_file(path: Path, body: bytes) -> None:
    """Write the file of an option `--out`."""
    try:
        path.write_bytes(body)
    except OSError as error:
        raise ClewError(f"Cannot write {path}: {error.strerror}.", hint="Pass another file with --out.") from error


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


def format_duration(milliseconds: float | None) -> str:
    """Format milliseconds as ms, s or min."""
    if milliseconds is None:
        return "?"
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds // 60_000:.0f} min {milliseconds % 60_000 / 1000:.0f} s"


def format_megabytes(amount: float | None) -> str:
    """Format an amount of memory."""
    return "?" if amount is None else f"{amount:,.0f} MB"


def format_shape(rows: int | None, columns: int) -> str:
    """Format rows × columns."""
    return f"{'?' if rows is None else f'{rows:,}'} × {columns}"


def format_count(number: int, singular: str, plural: str | None = None) -> str:
    """Format a count: `1 cell`, `2 cells`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def format_bytes(amount: int) -> str:
    """Format bytes as kB, MB or GB."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if amount >= size:
            return f"{amount / size:,.1f} {unit}"
    return f"{amount} B"
