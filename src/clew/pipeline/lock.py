"""One pipeline per lake."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from clew.errors import ClewError
from clew.home import BucketUrl, LakePlace
from clew.lake.storage import bucket_at

if TYPE_CHECKING:
    from clew.pipeline.lease import Claim

# A backfill has a lock of its own: it may go on beside a pipeline.
BACKFILL_LOCK: Final = ".backfill.lock"
# Someone who asks who holds the lock has it for an instant, too.
_TRIES = 3
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True)
class Holder:
    """The process that is at work, and its machine if it may be another; None stands for what it did not say."""

    pid: int | None
    since: str | None
    host: str | None = None

    def __str__(self) -> str:
        where = "" if self.host is None else f" on {self.host}"
        return "unknown process" if self.pid is None else f"process {self.pid}{where}, since {self.since}"


class HeldError(ClewError):
    """Someone else is at work."""


# Raises if the lock is lost: to be asked before each commit.
Require = Callable[[], None]


@contextmanager
def held(place: LakePlace, worker: str = "pipeline") -> Iterator[Require]:
    """Hold the lock at a place, or say who holds it."""
    with _leased(place, worker) if isinstance(place, BucketUrl) else _locked(place, worker) as require:
        yield require


def holder_of(place: LakePlace) -> Holder | None:
    """Who holds the lock at a place now, if anyone does."""
    return _leaseholder(place) if isinstance(place, BucketUrl) else _locker(place)


@contextmanager
def _locked(path: Path, worker: str) -> Iterator[Require]:
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
        # The system keeps it until the process ends.
        yield lambda: None


@contextmanager
def _leased(url: BucketUrl, worker: str) -> Iterator[Require]:
    bucket = bucket_at(url.parent)
    # Here, and not above: only a lake in a bucket needs the extra.
    from clew.pipeline.lease import Lease

    lease = Lease(bucket, url.name)
    if not lease.take():
        message = f"Another {worker} is at work on {url.parent} ({_named(lease.rival)})."
        hint = "Wait for it to end, or stop it. If it was killed, its lock ends by itself within about a minute."
        raise HeldError(message, hint=hint)
    with lease.kept():
        yield lease.require


def _leaseholder(url: BucketUrl) -> Holder | None:
    bucket = bucket_at(url.parent)
    from clew.pipeline.lease import claim_on

    claim = claim_on(bucket, url.name)
    return None if claim is None else _named(claim)


def _named(claim: Claim | None) -> Holder:
    return Holder(None, None) if claim is None else Holder(claim.pid, claim.since, claim.host)


def _locker(path: Path) -> Holder | None:
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
