"""What capture failed to do: counted and shown, never thrown at the user."""

from __future__ import annotations

import sys
from collections import Counter

_counts: Counter[str] = Counter()
_last: dict[str, str] = {}
_noticed: set[str] = set()


def count_loss(where: str, error: BaseException) -> None:
    """Note that capture lost something at `where`."""
    _counts[where] += 1
    # The type and no message: an error's text may hold data.
    _last[where] = type(error).__name__


def notice_once(text: str) -> None:
    """Say something on stderr, once per process."""
    if text not in _noticed:
        _noticed.add(text)
        sys.stderr.write(f"clew: {text}\n")


def losses() -> dict[str, int]:
    """How often capture failed, by place."""
    return dict(_counts)


def loss_summary() -> str | None:
    """One line about what was lost, or None if nothing was."""
    if not _counts:
        return None
    places = ", ".join(f"{place} ({_last[place]}) x{times}" for place, times in _counts.most_common(5))
    return f"capture lost {sum(_counts.values())} operations: {places}"


def forget_losses() -> None:
    """Start counting anew."""
    _counts.clear()
    _last.clear()
