"""What was refused, in the log of the process: enough to find the sender, and never a flood."""

from __future__ import annotations

import logging
import time

from clew.collector.answers import is_fault_of_ours, sentence
from clew.serving.plain import Caller

_LOG = logging.getLogger("clew.collector")
_SECONDS_BETWEEN = 1.0


class RefusalLog:
    """Writes one refusal of a kind a second, with the number of those that it kept to itself."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], tuple[float, int]] = {}

    def note(self, path: str, caller: Caller, status: int, fault: Exception) -> None:
        """Tell of a refusal, unless one like it was told a moment ago."""
        kind, now = (path, status), time.monotonic()
        last, unsaid = self._last.get(kind, (-_SECONDS_BETWEEN, 0))
        if now - last < _SECONDS_BETWEEN:
            self._last[kind] = (last, unsaid + 1)
            return
        self._last[kind] = (now, 0)
        facts = {
            "path": path,
            "status": status,
            "address": caller.client.host if caller.client else None,
            "agent": caller.headers.get("user-agent"),
            "unsaid": unsaid,
        }
        level = logging.ERROR if is_fault_of_ours(fault) else logging.WARNING
        _LOG.log(level, "refused: %s", sentence(fault), extra={"facts": facts})
