"""Run states by event type."""

from __future__ import annotations

from typing import Final

# A terminal state is sticky: a lower rank never replaces a higher one, whatever the order of arrival.
STATE_RANKS: Final[dict[str, int]] = {"START": 1, "RUNNING": 2, "COMPLETE": 3, "FAIL": 3, "ABORT": 3}
TERMINAL_RANK: Final = 3
RUN_STATES: Final[dict[str, str]] = {
    "START": "RUNNING",
    "RUNNING": "RUNNING",
    "COMPLETE": "COMPLETED",
    "FAIL": "FAILED",
    "ABORT": "ABORTED",
}
DEFAULT_STATE: Final = "NEW"
