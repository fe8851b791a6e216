"""How far a question goes before it is cheaper to have the whole graph."""

from __future__ import annotations

from clew.errors import ClewError

# A job or a dataset is asked for in 60 to 80 µs: so many keep an answer below 0.4 s, start of the process included.
MOST_ASKED = 2_000


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
