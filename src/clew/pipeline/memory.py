"""Memory that a process no longer needs, given back to the system."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

P = ParamSpec("P")

_SIZES = Path("/proc/self/statm")
_MUCH_BYTES = 128 << 20
# What usual events need at once stays below both; what events of megabytes need does not, and goes back when free.
_MOST_KEPT_BYTES = 256 << 20
_LARGEST_KEPT_BYTES = 12 << 20
# From malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


class _Next:
    """What the next task of this process will need."""

    is_alike = False


def keep() -> None:
    """Keep this task's memory for the next, which is like it: to give it back costs a thirtieth of the work."""
    _Next.is_alike = True


def reuse() -> None:
    """Let this process, and those that it forks, use freed memory again rather than ask the system each time.

    The C library returns it at every batch of rows, and the system clears each page anew: a twentieth of the work.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_TRIM_THRESHOLD, _MOST_KEPT_BYTES)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)


def give_back() -> None:
    """Give back what is free between what is in use: the C library keeps it for later, and events may be large."""
    library = ctypes.CDLL(None)
    # Only glibc has it.
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def giving_back(work: Callable[P, None]) -> Callable[P, None]:
    """The same work; at its end, a process that holds much memory gives back what is free, unless it is to keep it."""

    @wraps(work)
    def done(*args: P.args, **kwargs: P.kwargs) -> None:
        work(*args, **kwargs)
        if not _Next.is_alike and _held_bytes() > _MUCH_BYTES:
            gc.collect()
            give_back()
        _Next.is_alike = False

    return done


def _held_bytes() -> int:
    """How much memory the process holds; 0 where the system does not say."""
    if not _SIZES.exists():
        return 0
    return int(_SIZES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
