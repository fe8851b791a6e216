"""Heap trimming and malloc tuning of Spark workers."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

P = ParamSpec("P")

_STATM = Path("/proc/self/statm")
_MIN_RESIDENT_BYTES = 128 << 20
# Small events stay below both thresholds; memory of large events exceeds them and is returned when freed.
_TRIM_THRESHOLD_BYTES = 256 << 20
_MMAP_THRESHOLD_BYTES = 12 << 20
# From malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


class _State:
    """State of the process: `skip_trim` disables trimming after the current task."""

    skip_trim = False


def skip_trim_after_task() -> None:
    """Skip trimming after this task, because the next one needs as much memory: trimming costs 3 % of the work."""
    _State.skip_trim = True


def tune_malloc() -> None:
    """Raise the malloc thresholds of this process and its forks, so that freed memory is reused.

    By default, glibc returns memory after every batch of rows, and the system clears each page again: 5 % of the work.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)
        library.mallopt(_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)


def trim_heap() -> None:
    """Return free heap memory to the system, which glibc would hold for reuse."""
    library = ctypes.CDLL(None)
    # Only available in glibc.
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def trims_heap_after(task: Callable[P, None]) -> Callable[P, None]:
    """Wrap a task so that a process with much resident memory trims its heap afterwards."""

    @wraps(task)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        task(*args, **kwargs)
        if not _State.skip_trim and _resident_bytes() > _MIN_RESIDENT_BYTES:
            gc.collect()
            trim_heap()
        _State.skip_trim = False

    return wrapper


def _resident_bytes() -> int:
    """Return the resident memory of the process; 0 if unknown."""
    if not _STATM.exists():
        return 0
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
