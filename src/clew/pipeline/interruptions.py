"""Ctrl-C while a thing is started that must not be left half started."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptions_held() -> Iterator[None]:
    """Let Ctrl-C take effect at the end; who presses it twice does not wait. Other handlers than Python's stay."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    is_held = False

    def hold(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_held
        if is_held:
            raise KeyboardInterrupt
        is_held = True

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is hold:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_held:
        raise KeyboardInterrupt
