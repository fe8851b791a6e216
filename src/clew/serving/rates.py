"""How often one caller may call."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from clew.errors import ClewError

# Beyond so many, those who could call as much as ever are forgotten.
_MOST_CALLERS = 10_000


class TooOftenError(ClewError):
    """A caller calls more often than is allowed; `seconds` says when to come back."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message, hint=f"Come back in {seconds} s.")
        self.seconds = seconds


class Rates:
    """So many calls a second for each caller; what was not used for a second is saved up, and no more."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second)
        self._clock = clock
        # What is left, and since when.
        self._left: dict[str, tuple[float, float]] = {}

    def count(self, caller: str) -> None:
        """Count a call, or refuse it."""
        now = self._clock()
        left = self._now(caller, now)
        if left < 1:
            message = f"{caller} calls more than {self._per_second:g} times a second."
            raise TooOftenError(message, math.ceil((1 - left) / self._per_second))
        self._left[caller] = (left - 1, now)
        if len(self._left) > _MOST_CALLERS:
            self._left = {one: kept for one, kept in self._left.items() if self._now(one, now) < self._burst}

    def _now(self, caller: str, now: float) -> float:
        left, since = self._left.get(caller, (self._burst, now))
        return min(self._burst, left + (now - since) * self._per_second)
