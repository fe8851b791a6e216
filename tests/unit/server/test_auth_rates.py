"""How often one caller may call."""

from __future__ import annotations

import pytest

from clew.server import auth as rates_module
from clew.server.auth import RateLimitedError, RateLimiter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def calls(rates: RateLimiter, caller: str, times: int) -> int:
    """How many of so many calls are let through."""
    done = 0
    for _ in range(times):
        try:
            rates.acquire(caller)
        except RateLimitedError:
            continue
        done += 1
    return done


def test_each_caller_has_so_many_a_second() -> None:
    clock = Clock()
    rates = RateLimiter(10, clock)
    assert [calls(rates, "a", 15), calls(rates, "b", 5)] == [10, 5]
    clock.now += 0.5
    assert [calls(rates, "a", 15), calls(rates, "b", 15)] == [5, 10]
    clock.now += 60
    assert calls(rates, "a", 15) == 10, "what was not used is not saved up for longer than a second"


@pytest.mark.parametrize(("per_second", "seconds"), [(10, 1), (0.5, 2), (0.1, 10)])
def test_who_comes_too_often_hears_when_to_come_back(per_second: float, seconds: int) -> None:
    clock = Clock()
    rates = RateLimiter(per_second, clock)
    calls(rates, "a", 10)
    with pytest.raises(RateLimitedError, match="a sent more than") as refused:
        rates.acquire("a")
    assert refused.value.retry_after == seconds
    clock.now += seconds
    rates.acquire("a")


def test_those_who_have_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates_module, "_MAX_CLIENTS", 10)
    clock = Clock()
    rates = RateLimiter(1, clock)
    for number in range(100):
        rates.acquire(str(number))
        clock.now += 0.5
    assert len(rates._buckets) <= 10
