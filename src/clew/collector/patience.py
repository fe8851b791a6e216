"""How long those who sent events wait for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from clew.errors import ClewError

# Clients give up after five seconds and send the event again.
ANSWER_SECONDS = 4.5

# Is told of the fault, or of none.
Then: TypeAlias = Callable[[Exception | None], None]


class OverloadedError(ClewError):
    """More is waiting to be stored than can be within the time that a client waits."""


class Patience:
    """Tells all who wait on a loop how something ended, once; that it takes too long, if it does.

    Those who wait for the same share a timer: one for each would cost as much as reading its request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thens: list[Then] = []
        self._timer = loop.call_later(ANSWER_SECONDS, self._give_up)

    def add(self, then: Then) -> None:
        """One more waits."""
        self._thens.append(then)

    def end(self, fault: Exception | None) -> None:
        """It has ended."""
        self._timer.cancel()
        thens, self._thens = self._thens, []
        for then in thens:
            then(fault)

    def _give_up(self) -> None:
        self.end(OverloadedError("The disk is slow.", hint="Send the event again, in a moment."))
