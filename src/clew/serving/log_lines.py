"""What a server says on stderr: lines for people, or JSON for what gathers them."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec


class JsonLines(logging.Formatter):
    """One JSON object a line; what a record carries as `facts` stands beside its message."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def log_to_stderr(*, as_json: bool) -> None:
    """From now on, tell there what the parts of a server have to say."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[lines], level=logging.WARNING, force=True)
    logging.getLogger("clew").setLevel(logging.INFO)
