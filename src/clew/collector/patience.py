"""Ack callbacks with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from clew.errors import ClewError

# OpenLineage clients time out after five seconds and resend the event.
ACK_TIMEOUT_SECONDS = 4.5

# Receives the error, or None on success.
AckCallback: TypeAlias = Callable[[Exception | None], None]


class OverloadedError(ClewError):
    """Events cannot be stored before clients time out (HTTP 503)."""


class AckGroup:
    """Runs the ack callbacks of one commit group once: with the result, or with a timeout error.

    One timer per group: one per request would cost as much as reading the request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._callbacks: list[AckCallback] = []
        self._timer = loop.call_later(ACK_TIMEOUT_SECONDS, self._time_out)

    def add(self, callback: AckCallback) -> None:
        """Add a callback."""
        self._callbacks.append(callback)

    def resolve(self, error: Exception | None) -> None:
        """Run the callbacks with the result."""
        self._timer.cancel()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(error)

    def _time_out(self) -> None:
        self.resolve(OverloadedError("Timed out waiting for the log to be synced.", hint="Retry in a moment."))
