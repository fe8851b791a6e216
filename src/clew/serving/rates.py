"""Rate limit per client."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from clew.errors import ClewError

# Above this number, full buckets are dropped.
_MAX_CLIENTS = 10_000


class RateLimitedError(ClewError):
    """Rate limit exceeded; retry after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, hint=f"Retry in {retry_after} s.")
        self.retry_after = retry_after


class RateLimiter:
    """Token bucket per client; holds at most one second of requests."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second)
        self._clock = clock
        # Tokens and time of the last update, by client.
        self._buckets: dict[str, tuple[float, float]] = {}

    def acquire(self, client: str) -> None:
        """Consume a token; RateLimitedError if there is none."""
        now = self._clock()
        tokens = self._available_tokens(client, now)
        if tokens < 1:
            message = f"{client} sent more than {self._per_second:g} requests per second."
            raise RateLimitedError(message, math.ceil((1 - tokens) / self._per_second))
        self._buckets[client] = (tokens - 1, now)
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets = {
                other: bucket
                for other, bucket in self._buckets.items()
                if self._available_tokens(other, now) < self._burst
            }

    def _available_tokens(self, client: str, now: float) -> float:
        tokens, updated_at = self._buckets.get(client, (self._burst, now))
        return min(self._burst, tokens + (now - updated_at) * self._per_second)
