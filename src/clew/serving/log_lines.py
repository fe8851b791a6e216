"""Logging to stderr as text or as JSON lines."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object; the extra `fields` are added to it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line of JSON."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def configure_logging(*, as_json: bool) -> None:
    """Configure logging to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("clew").setLevel(logging.INFO)
