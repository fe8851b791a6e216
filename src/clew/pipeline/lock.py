"""One pipeline per lake."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from clew.errors import ClewError


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock at `path`, or say who holds it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as fault:
        message = f"The pipeline cannot take its lock {path}: {fault.strerror}."
        raise ClewError(message, hint="Choose another folder with --home DIR or CLEW_HOME.") from fault
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            file.seek(0)
            message = f"Another pipeline is at work on {path.parent} ({_holder(file.read())})."
            raise ClewError(
                message, hint="Wait for it to end, stop it, or use another home with --home DIR."
            ) from fault
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}))
        file.flush()
        yield


def _holder(text: str) -> str:
    try:
        holder = json.loads(text)
    except ValueError:
        return "unknown process"
    return f"process {holder['pid']}, since {holder['since']}"
