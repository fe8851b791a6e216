"""What is printed where: data on stdout, talk on stderr, progress only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console

if TYPE_CHECKING:
    from clew.cli.progress import Telling

_UNCUT = 240
# A terminal that is narrower breaks lines by itself: a column that is cut away says nothing.
_NARROWEST = 80


class _Screen(Console):
    """A console that prints texts as they are: a name or path may hold brackets and colons."""

    def __init__(self, *, is_talk: bool, width: int | None = None, narrowest: int = 0) -> None:
        super().__init__(stderr=is_talk, soft_wrap=is_talk, width=width, markup=False, emoji=False, highlight=False)
        self.width = max(self.width, narrowest)

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which knows that a reader who has gone is no fault."""
        raise BrokenPipeError


def data(narrowest: int = _NARROWEST) -> Console:
    """Where answers go."""
    # A file or pipe has no width: lines are not to be cut there.
    return _Screen(is_talk=False, width=None if sys.stdout.isatty() else _UNCUT, narrowest=narrowest)


def talk() -> Console:
    """Where everything else goes."""
    return _Screen(is_talk=True)


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    sys.stdout.buffer.flush()


@contextmanager
def progress() -> Iterator[Telling]:
    """Give a function that tells what is being done, and how far it is: a bar where one can move, lines elsewhere."""
    # Here, because a command that only reads has no progress to show, and this takes a tenth of its time to load.
    from rich.progress import Progress

    from clew.cli.progress import Bar, Lines

    console = talk()
    if not console.is_terminal or console.is_dumb_terminal:
        yield Lines(console)
        return
    with Progress(*Bar.columns(), console=console, transient=True) as shown:
        yield Bar(shown)
