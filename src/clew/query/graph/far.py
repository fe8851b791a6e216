"""How far a question goes before it is cheaper to have the whole graph."""

from __future__ import annotations

from clew.errors import ClewError

# A node is asked for in some 40 µs; a graph of so many is made in about the time that this takes.
MOST_ASKED = 3_000


class TooFarError(ClewError):
    """More of the graph is needed than is worth asking for piece by piece."""


class Patience:
    """Counts what was asked of the index."""

    def __init__(self, most: int | None = None) -> None:
        self._left = MOST_ASKED if most is None else most

    def spend(self) -> None:
        """Ask once more."""
        self._left -= 1
        if self._left < 0:
            raise TooFarError("The question goes too far to be answered step by step.")
