"""How much memory this process holds."""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_STATM = Path("/proc/self/statm")
_MEGABYTE = 1024 * 1024
# Kept open: it is read at the start and the end of every cell. A forked child has one of its own.
_open: dict[int, int] = {}
# The last reading and when it was made: the system adds up the counters of every core for each.
_SECONDS_GOOD = 0.005
_last: dict[str, float] = {"mb": 0.0, "at": -_SECONDS_GOOD}


def memory_mb() -> float:
    """Resident memory in MB; where the system does not say, the peak so far."""
    found = _last["mb"] = _read()
    _last["at"] = time.monotonic()
    return found


def recent_memory_mb() -> float:
    """The same, as it was a moment ago: a cell that follows another one starts with what that one left."""
    return _last["mb"] if time.monotonic() - _last["at"] < _SECONDS_GOOD else memory_mb()


def _read() -> float:
    try:
        process = os.getpid()
        if process not in _open:
            _open[process] = os.open(_STATM, os.O_RDONLY)
        return round(int(os.pread(_open[process], 64, 0).split()[1]) * _PAGE / _MEGABYTE, 2)
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return round(peak / _MEGABYTE if sys.platform == "darwin" else peak / 1024, 2)
