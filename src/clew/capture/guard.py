"""Re-entrancy guard: separates calls of the user from calls inside pandas."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReentrancyGuard(threading.local):
    """Depth of the running pandas call in this thread; only calls at depth 0 are traced."""

    depth = 0


guard = ReentrancyGuard()


@contextmanager
def tracing_enabled() -> Iterator[None]:
    """Trace calls again while a user callback runs."""
    depth, guard.depth = guard.depth, 0
    try:
        yield
    finally:
        guard.depth = depth


@contextmanager
def tracing_suppressed() -> Iterator[None]:
    """Suppress tracing while clew itself calls a library."""
    depth, guard.depth = guard.depth, 1
    try:
        yield
    finally:
        guard.depth = depth
