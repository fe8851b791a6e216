"""What is said of long work while it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

Say = Callable[[str], None]

_SECONDS_BETWEEN_WORDS = 5.0


def silently(_: str) -> None:
    """For work that nobody waits for."""


class Headway:
    """Says what is begun, and every few seconds how many pieces of it are done."""

    def __init__(self, say: Say, doing: str, pieces: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._doing = doing
        self._pieces = pieces
        self._clock = clock
        self._next = clock() + _SECONDS_BETWEEN_WORDS
        say(doing)

    def __call__(self, done: int, total: int) -> None:
        """Tell how far it is, unless that was told a moment ago, or all is done."""
        if done < total and self._clock() >= self._next:
            self._say(f"{self._doing}: {done} of {total} {self._pieces} done")
            self._next = self._clock() + _SECONDS_BETWEEN_WORDS
