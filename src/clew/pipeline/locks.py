"""The lock of a lake: one pipeline at a time."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from clew.data_dir import BucketUrl, LakeLocation
from clew.errors import ClewError
from clew.lake.storage import open_bucket_storage

if TYPE_CHECKING:
    from clew.lake.bucket import LeaseRecord

PIPELINE_LOCK: Final = ".lock"
# A backfill has a separate lock: it may run concurrently with a pipeline.
BACKFILL_LOCK: Final = ".backfill.lock"
# Reading the holder acquires the lock for an instant.
_MAX_ATTEMPTS = 3
_RETRY_INTERVAL_SECONDS = 0.02


@dataclass(frozen=True)
class LockHolder:
    """The process that holds the lock, and its host if it may be another; None if unknown."""

    pid: int | None
    since: str | None
    host: str | None = None

    def __str__(self) -> str:
        where = "" if self.host is None else f" on {self.host}"
        return "unknown process" if self.pid is None else f"process {self.pid}{where}, since {self.since}"


class LockedError(ClewError):
    """Another process holds the lock."""


# Raises if the lock was lost; called before each commit.
LockCheck = Callable[[], None]


@contextmanager
def acquire_lock(location: LakeLocation, worker: str = "pipeline") -> Iterator[LockCheck]:
    """Hold the lock at a location; raise LockedError with its holder if it is not free."""
    with (
        _acquire_lease(location, worker)
        if isinstance(location, BucketUrl)
        else _acquire_file_lock(location, worker) as check
    ):
        yield check


def read_lock_holder(location: LakeLocation) -> LockHolder | None:
    """Read the current holder of a lock, if any."""
    return _lease_holder(location) if isinstance(location, BucketUrl) else _file_lock_holder(location)


@contextmanager
def _acquire_file_lock(path: Path, worker: str) -> Iterator[LockCheck]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as error:
        message = f"The {worker} cannot acquire its lock {path}: {error.strerror}."
        raise ClewError(message, hint="Pass another folder with --home DIR or CLEW_HOME.") from error
    with file:
        if not any(_try_flock(file, attempt) for attempt in range(_MAX_ATTEMPTS)):
            message = f"Another {worker} is running on {path.parent} ({_parse_holder(file)})."
            raise LockedError(
                message, hint="Wait for it to finish, stop it, or pass another data directory with --home DIR."
            )
        file.truncate(0)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        file.write(json.dumps({"pid": os.getpid(), "since": since, "host": socket.gethostname()}))
        file.flush()
        # Released by the system when the process ends.
        yield lambda: None


@contextmanager
def _acquire_lease(url: BucketUrl, worker: str) -> Iterator[LockCheck]:
    storage = open_bucket_storage(url.parent)
    # Imported lazily: only a lake in S3 needs the extra.
    from clew.lake.bucket import Lease

    lease = Lease(storage, url.name)
    if not lease.try_acquire():
        message = f"Another {worker} is running on {url.parent} ({_holder_of_lease(lease.current_holder)})."
        hint = "Wait for it to finish, or stop it. If it was killed, its lock expires within about a minute."
        raise LockedError(message, hint=hint)
    with lease.hold():
        yield lease.check


def _lease_holder(url: BucketUrl) -> LockHolder | None:
    storage = open_bucket_storage(url.parent)
    from clew.lake.bucket import read_lease

    record = read_lease(storage, url.name)
    return None if record is None else _holder_of_lease(record)


def _holder_of_lease(record: LeaseRecord | None) -> LockHolder:
    return LockHolder(None, None) if record is None else LockHolder(record.pid, record.since, record.host)


def _file_lock_holder(path: Path) -> LockHolder | None:
    try:
        file = path.open()
    except FileNotFoundError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _parse_holder(file)
    return None


def _try_flock(file: IO[str], attempt: int) -> bool:
    if attempt:
        time.sleep(_RETRY_INTERVAL_SECONDS)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _parse_holder(file: IO[str]) -> LockHolder:
    file.seek(0)
    try:
        values = json.loads(file.read())
        host = values.get("host")
        # The folder may be shared between machines.
        return LockHolder(int(values["pid"]), str(values["since"]), None if host == socket.gethostname() else host)
    except (ValueError, KeyError, TypeError):
        return LockHolder(None, None)
