"""How long an answer may take."""

from __future__ import annotations

import asyncio

from clew.collector.appender import OverloadedError, Then

# Clients give up after five seconds and send the event again.
ANSWER_SECONDS = 4.5


class Patience:
    """Tells how something ended, once; that it takes too long, if it does."""

    def __init__(self, then: Then) -> None:
        self._then: Then | None = then
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """From now on the time runs."""
        self._timer = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._give_up)

    def end(self, fault: Exception | None) -> None:
        """It has ended."""
        if self._timer is not None:
            self._timer.cancel()
        then, self._then = self._then, None
        if then is not None:
            then(fault)

    def _give_up(self) -> None:
        self.end(OverloadedError("The disk is slow.", hint="Send the event again, in a moment."))
