"""Tests of deferring Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from clew.pipeline.spark.session import defer_keyboard_interrupt


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Set Python's handler: a shell lets its background processes ignore SIGINT."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def test_defers_ctrl_c_to_the_end() -> None:
    completed: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupt(completed, times=1)
    assert completed == ["done"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_second_ctrl_c_raises_immediately() -> None:
    completed: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupt(completed, times=2)
    assert not completed
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def interrupt(completed: list[str], times: int) -> None:
    with defer_keyboard_interrupt():
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        completed.append("done")


def test_raises_nothing_without_ctrl_c() -> None:
    with defer_keyboard_interrupt():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_does_not_replace_a_handler_set_in_the_block() -> None:
    with restored_sigint_handler():
        with defer_keyboard_interrupt():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_ignored_ctrl_c_remains_ignored() -> None:
    with restored_sigint_handler():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with defer_keyboard_interrupt():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_sets_no_handler_in_other_threads() -> None:
    def run_deferred() -> bool:
        with defer_keyboard_interrupt():
            return True

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run_deferred).result()


@contextmanager
def restored_sigint_handler() -> Iterator[None]:
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
