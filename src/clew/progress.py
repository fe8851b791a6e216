"""Progress reporting of long operations."""

from __future__ import annotations

import time
from collections.abc import Callable

ProgressCallback = Callable[[str], None]

_REPORT_INTERVAL_SECONDS = 5.0


def no_progress(_: str) -> None:
    """Ignore progress messages."""


class ProgressReporter:
    """Reports the start of an operation, and every few seconds how many units are done."""

    def __init__(
        self, on_progress: ProgressCallback, description: str, unit: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._on_progress = on_progress
        self._description = description
        self._unit = unit
        self._clock = clock
        self._next = clock() + _REPORT_INTERVAL_SECONDS
        on_progress(description)

    def __call__(self, done: int, total: int) -> None:
        """Report the progress, unless it was reported recently or all is done."""
        if done < total and self._clock() >= self._next:
            self._on_progress(f"{self._description}: {done} of {total} {self._unit} done")
            self._next = self._clock() + _REPORT_INTERVAL_SECONDS
