"""Counters of swallowed capture errors, and process memory."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import Counter
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_STATM = Path("/proc/self/statm")
_MEGABYTE = 1024 * 1024
# File descriptors by process id (a forked child opens another): read at the start and end of every cell.
_open_files: dict[int, int] = {}
# Cached reading: the system sums per-core counters for each.
_MAX_AGE_SECONDS = 0.005
_last_reading: dict[str, float] = {"mb": 0.0, "at": -_MAX_AGE_SECONDS}


def memory_mb() -> float:
    """Return resident memory in MB, or the peak where the current value is unavailable."""
    megabytes = _last_reading["mb"] = _read_resident_mb()
    _last_reading["at"] = time.monotonic()
    return megabytes


def recent_memory_mb() -> float:
    """Return resident memory in MB, from the cache if it is recent, as between consecutive cells."""
    return _last_reading["mb"] if time.monotonic() - _last_reading["at"] < _MAX_AGE_SECONDS else memory_mb()


def _read_resident_mb() -> float:
    try:
        process = os.getpid()
        if process not in _open_files:
            _open_files[process] = os.open(_STATM, os.O_RDONLY)
        return round(int(os.pread(_open_files[process], 64, 0).split()[1]) * _PAGE_BYTES / _MEGABYTE, 2)
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return round(peak / _MEGABYTE if sys.platform == "darwin" else peak / 1024, 2)


_counts: Counter[str] = Counter()
_last_error_types: dict[str, str] = {}
_warned: set[str] = set()


def record_error(where: str, error: BaseException) -> None:
    """Count an error of capture at `where`."""
    _counts[where] += 1
    # The type without the message, which may contain data.
    _last_error_types[where] = type(error).__name__


def warn_once(message: str) -> None:
    """Print a warning on stderr once per process."""
    if message not in _warned:
        _warned.add(message)
        sys.stderr.write(f"clew: {message}\n")


def error_counts() -> dict[str, int]:
    """Return the number of errors by location."""
    return dict(_counts)


def error_summary() -> str | None:
    """Return one line about the errors, or None if there were none."""
    if not _counts:
        return None
    details = ", ".join(f"{where} ({_last_error_types[where]}) x{count}" for where, count in _counts.most_common(5))
    return f"capture lost {sum(_counts.values())} operations: {details}"


def reset_errors() -> None:
    """Reset the counters."""
    _counts.clear()
    _last_error_types.clear()
