"""Counters of errors inside capture, which are never raised to the user."""

from __future__ import annotations

import sys
from collections import Counter

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
