"""Deferral of Ctrl-C during critical sections."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def defer_keyboard_interrupt() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block; a second one interrupts at once. Custom handlers are not replaced."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    is_interrupted = False

    def defer(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            raise KeyboardInterrupt
        is_interrupted = True

    signal.signal(signal.SIGINT, defer)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is defer:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_interrupted:
        raise KeyboardInterrupt
