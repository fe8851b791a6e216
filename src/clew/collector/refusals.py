"""Throttled logging of rejected requests."""

from __future__ import annotations

import logging
import time

from clew.collector.answers import is_server_error, rejection_message
from clew.serving.plain import RequestInfo

_LOG = logging.getLogger("clew.collector")
_MIN_SECONDS_BETWEEN_LINES = 1.0


class ThrottledErrorLog:
    """Logs one error per second, path and status, with the number of suppressed ones."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], tuple[float, int]] = {}

    def record(self, path: str, request: RequestInfo, status: int, error: Exception) -> None:
        """Log an error, unless one with the same path and status was just logged."""
        kind, now = (path, status), time.monotonic()
        last, suppressed = self._last.get(kind, (-_MIN_SECONDS_BETWEEN_LINES, 0))
        if now - last < _MIN_SECONDS_BETWEEN_LINES:
            self._last[kind] = (last, suppressed + 1)
            return
        self._last[kind] = (now, 0)
        fields = {
            "path": path,
            "status": status,
            "address": request.client.host if request.client else None,
            "user_agent": request.headers.get("user-agent"),
            "suppressed": suppressed,
        }
        level = logging.ERROR if is_server_error(error) else logging.WARNING
        _LOG.log(level, "request rejected: %s", rejection_message(error), extra={"fields": fields})
