from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from clew.pipeline.spark.session import defer_keyboard_interrupt


def test_ctrl_c_takes_effect_at_the_end() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        start(done, times=1)
    assert done == ["started"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_twice_takes_effect_at_once() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        start(done, times=2)
    assert not done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def start(done: list[str], times: int) -> None:
    with defer_keyboard_interrupt():
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        done.append("started")


def test_nothing_is_raised_when_nobody_interrupts() -> None:
    with defer_keyboard_interrupt():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_is_set_meanwhile_stays() -> None:
    with handler_after_the_test():
        with defer_keyboard_interrupt():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_who_ignores_ctrl_c_still_does() -> None:
    with handler_after_the_test():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with defer_keyboard_interrupt():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_another_thread_may_not_set_handlers_and_does_not() -> None:
    def held() -> bool:
        with defer_keyboard_interrupt():
            return True

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(held).result()


@contextmanager
def handler_after_the_test() -> Iterator[None]:
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
