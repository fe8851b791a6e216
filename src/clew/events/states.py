"""Run states, as event types tell them."""

from __future__ import annotations

from typing import Final

# Terminal is sticky: a higher rank is never undone by a lower one, whenever it arrives.
RANKS: Final[dict[str, int]] = {"START": 1, "RUNNING": 2, "COMPLETE": 3, "FAIL": 3, "ABORT": 3}
TERMINAL_RANK: Final = 3
STATES: Final[dict[str, str]] = {
    "START": "RUNNING",
    "RUNNING": "RUNNING",
    "COMPLETE": "COMPLETED",
    "FAIL": "FAILED",
    "ABORT": "ABORTED",
}
UNSAID: Final = "NEW"
