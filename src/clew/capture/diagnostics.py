"""Counters of swallowed capture errors, and process memory."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

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
# Losses that are not in the log yet, with the id of the execution; bounded, since a loop may lose something each time.
pending_losses: dict[tuple[str | None, CaptureLoss], int] = {}
_MAX_PENDING = 100


class CaptureLoss(NamedTuple):
    """Something that capture could not follow: what it was doing, the type of the error, and the code of the user."""

    where: str
    error_type: str
    # File, lines and columns, as in `Position`.
    position: tuple[str, int, int, int, int] | None = None
    times: int = 1


def record_error(where: str, error: BaseException) -> None:
    """Count an error of capture at `where`, and keep it for the events of the running cell."""
    from clew.capture.environments.session import current_execution

    _counts[where] += 1
    # The type without the message, which may contain data.
    _last_error_types[where] = type(error).__name__
    execution = current_execution()
    position = None
    with contextlib.suppress(Exception):
        # After a cell, the user's code on the stack is not what is being recorded.
        position = _user_position() if execution is not None else None
    loss = CaptureLoss(where, type(error).__name__, position)
    key = (execution.run_id if execution is not None else None, loss)
    if key in pending_losses or len(pending_losses) < _MAX_PENDING:
        pending_losses[key] = pending_losses.get(key, 0) + 1


def take_losses(run_id: str, position: tuple[str, int, int, int, int] | None = None) -> list[CaptureLoss]:
    """Remove and return the losses of an execution, and those outside of any; `position` is that of the latter."""
    keys = [key for key in pending_losses if key[0] in (run_id, None)]
    return [
        loss._replace(
            times=pending_losses.pop((owner, loss)), position=loss.position or (position if owner is None else None)
        )
        for owner, loss in keys
    ]


def _user_position() -> tuple[str, int, int, int, int] | None:
    """Return the position of the innermost user code on the stack."""
    from clew.capture.introspection.source_map import position_of
    from clew.capture.introspection.user_code import innermost_user_frame

    frame = innermost_user_frame(sys._getframe(2))
    return position_of(frame.f_code, frame.f_lasti) if frame is not None else None


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
    pending_losses.clear()
