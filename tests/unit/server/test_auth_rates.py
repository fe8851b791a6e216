"""Tests of the rate limit per client."""

from __future__ import annotations

import pytest

from clew.server import auth as auth_module
from clew.server.auth import RateLimitedError, RateLimiter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def count_accepted(limiter: RateLimiter, client: str, times: int) -> int:
    """Call `acquire` repeatedly, and count the accepted calls."""
    accepted = 0
    for _ in range(times):
        try:
            limiter.acquire(client)
        except RateLimitedError:
            continue
        accepted += 1
    return accepted


def test_limits_each_client_separately() -> None:
    clock = Clock()
    limiter = RateLimiter(10, clock)
    assert [count_accepted(limiter, "a", 15), count_accepted(limiter, "b", 5)] == [10, 5]
    clock.now += 0.5
    assert [count_accepted(limiter, "a", 15), count_accepted(limiter, "b", 15)] == [5, 10]
    clock.now += 60
    assert count_accepted(limiter, "a", 15) == 10, "unused capacity expires after one second"


@pytest.mark.parametrize(("per_second", "seconds"), [(10, 1), (0.5, 2), (0.1, 10)])
def test_error_has_the_seconds_to_wait(per_second: float, seconds: int) -> None:
    clock = Clock()
    limiter = RateLimiter(per_second, clock)
    count_accepted(limiter, "a", 10)
    with pytest.raises(RateLimitedError, match="a sent more than") as raised:
        limiter.acquire("a")
    assert raised.value.retry_after == seconds
    clock.now += seconds
    limiter.acquire("a")


def test_evicts_idle_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth_module, "_MAX_CLIENTS", 10)
    clock = Clock()
    limiter = RateLimiter(1, clock)
    for number in range(100):
        limiter.acquire(str(number))
        clock.now += 0.5
    assert len(limiter._buckets) <= 10
