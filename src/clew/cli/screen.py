"""What is printed where: data on stdout, talk on stderr, progress only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from rich.console import Console
from rich.progress import Progress

from clew.cli.progress import Bar, Lines, Telling

_UNCUT = 240


class _Screen(Console):
    """A console that prints texts as they are: a name or path may hold brackets and colons."""

    def __init__(self, *, is_talk: bool, width: int | None = None) -> None:
        super().__init__(stderr=is_talk, soft_wrap=is_talk, width=width, markup=False, emoji=False, highlight=False)

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which knows that a reader who has gone is no fault."""
        raise BrokenPipeError


def data() -> Console:
    """Where answers go."""
    # A file or pipe has no width: lines are not to be cut there.
    return _Screen(is_talk=False, width=None if sys.stdout.isatty() else _UNCUT)


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
    console = talk()
    if not console.is_terminal or console.is_dumb_terminal:
        yield Lines(console)
        return
    with Progress(*Bar.columns(), console=console, transient=True) as shown:
        yield Bar(shown)
