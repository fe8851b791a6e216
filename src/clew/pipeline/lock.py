"""One pipeline per lake."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from clew.errors import ClewError

# A backfill has a lock of its own: it may go on beside a pipeline.
BACKFILL_LOCK: Final = ".backfill.lock"
# Someone who asks who holds the lock has it for an instant, too.
_TRIES = 3
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True)
class Holder:
    """The process that is at work; None stands for what it did not say."""

    pid: int | None
    since: str | None

    def __str__(self) -> str:
        return "unknown process" if self.pid is None else f"process {self.pid}, since {self.since}"


class HeldError(ClewError):
    """Someone else is at work."""


@contextmanager
def held(path: Path, worker: str = "pipeline") -> Iterator[None]:
    """Hold the lock at `path`, or say who holds it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as fault:
        message = f"The {worker} cannot take its lock {path}: {fault.strerror}."
        raise ClewError(message, hint="Choose another folder with --home DIR or CLEW_HOME.") from fault
    with file:
        if not any(_is_taken(file, attempt) for attempt in range(_TRIES)):
            message = f"Another {worker} is at work on {path.parent} ({_holder(file)})."
            raise HeldError(message, hint="Wait for it to end, stop it, or use another home with --home DIR.")
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}))
        file.flush()
        yield


def holder_of(path: Path) -> Holder | None:
    """Who holds the lock at `path` now, if anyone does."""
    try:
        file = path.open()
    except FileNotFoundError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(file)
    return None


def _is_taken(file: IO[str], attempt: int) -> bool:
    if attempt:
        time.sleep(_PAUSE_SECONDS)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: IO[str]) -> Holder:
    file.seek(0)
    try:
        found = json.loads(file.read())
        return Holder(int(found["pid"]), str(found["since"]))
    except (ValueError, KeyError, TypeError):
        return Holder(None, None)
