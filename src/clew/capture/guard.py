"""The guard that tells a user's call from the calls that pandas makes to itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Guard(threading.local):
    """Depth of the running pandas call in this thread; only calls at depth 0 are the user's."""

    depth = 0


guard = Guard()


@contextmanager
def user_code() -> Iterator[None]:
    """While a callback of the user runs, its calls count again."""
    depth, guard.depth = guard.depth, 0
    try:
        yield
    finally:
        guard.depth = depth


@contextmanager
def own_code() -> Iterator[None]:
    """While clew itself asks a library something, its calls are not the user's."""
    depth, guard.depth = guard.depth, 1
    try:
        yield
    finally:
        guard.depth = depth
