"""Lease: the lock of a lake in S3, an object that only one process can create and that its holder must renew.

S3 does not notice when a process dies, so the lock expires without heartbeats. An expired lease is acquired with a
conditional put that only one process can win.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import Final

import msgspec
from msgspec import Struct

from clew.errors import ClewError
from clew.lake.bucket import ETag, S3Storage, StoredObject

LEASE_SECONDS: Final = 60.0
# Three heartbeats may be lost.
_HEARTBEATS_PER_LEASE = 4


class LeaseRecord(Struct, frozen=True):
    """Content of the lock object: its holder, since when, and its validity after each heartbeat."""

    pid: int
    host: str
    since: str
    lease_seconds: float
    token: str
    # Counter, so that each heartbeat changes the content and thus the ETag.
    heartbeat: int = 0


class LeaseLostError(ClewError):
    """The lease could not be renewed in time; another process may hold it."""

    @classmethod
    def of(cls, name: str) -> LeaseLostError:
        """Build the error for a lock."""
        message = (
            f"The lock {name} could not be renewed in time, and another process may hold it: nothing more is committed."
        )
        hint = "Was this machine suspended, or its network down? Run the command again: it resumes where it stopped."
        return cls(message, hint=hint)


_decode = msgspec.json.Decoder(LeaseRecord).decode
# Counts the time that the machine is suspended, if the system has such a clock.
_clock = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """A named lease in S3; a thread renews it while it is held."""

    def __init__(self, storage: S3Storage, name: str, seconds: float | None = None) -> None:
        self._storage = storage
        self._name = name
        self._seconds = LEASE_SECONDS if seconds is None else seconds
        self._record = _new_record(self._seconds)
        self._etag = ETag("")
        self._valid_until = 0.0
        self._stop = Event()
        # The holder found by `try_acquire`.
        self.current_holder: LeaseRecord | None = None

    def try_acquire(self) -> bool:
        """Acquire the lease if it is free or expired; return whether it was acquired."""
        requested_at = _clock()
        etag = self._storage.put_if_absent(self._name, self._encode())
        if etag is None:
            stored = self._storage.get_object(self._name)
            self.current_holder = None if stored is None else parse_lease(stored)
            if stored is None or self._is_expired(stored):
                etag = self._replace(stored)
            elif self._is_own(stored):
                # It was created, but the response was lost.
                etag = stored.etag
        return self._extend_validity(etag, requested_at)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Renew an acquired lease until the end of the block, then release it."""
        thread = Thread(target=self._heartbeat_loop, name="clew-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            self._release()

    def check(self) -> None:
        """Raise if the lease has expired."""
        if _clock() >= self._valid_until:
            raise LeaseLostError.of(self._name)

    def renew(self) -> None:
        """Send a heartbeat; a failed one is repeated with the next."""
        requested_at = _clock()
        self._record = msgspec.structs.replace(self._record, heartbeat=self._record.heartbeat + 1)
        etag = self._storage.put_if_match(self._name, self._encode(), self._etag)
        if etag is None:
            # Either another process has it, or the response to a heartbeat was lost.
            stored = self._storage.get_object(self._name)
            etag = stored.etag if stored is not None and self._is_own(stored) else None
            if etag is None:
                self._valid_until = 0.0
                self._stop.set()
                return
        self._extend_validity(etag, requested_at)

    def _heartbeat_loop(self) -> None:
        while not self._stop.wait(self._seconds / _HEARTBEATS_PER_LEASE):
            try:
                self.renew()
            except ClewError:
                # No network: the lease is valid until it expires, which `check` detects.
                continue

    def _extend_validity(self, etag: ETag | None, requested_at: float) -> bool:
        if etag is None:
            return False
        # From the time of the request: for other processes the validity starts later, at the response.
        self._etag, self._valid_until = etag, requested_at + self._seconds
        return True

    def _replace(self, stored: StoredObject | None) -> ETag | None:
        if stored is None:
            return self._storage.put_if_absent(self._name, self._encode())
        return self._storage.put_if_match(self._name, self._encode(), stored.etag)

    def _is_expired(self, stored: StoredObject) -> bool:
        record = parse_lease(stored)
        seconds = LEASE_SECONDS if record is None else record.lease_seconds
        return (self._now() - stored.written_at).total_seconds() > seconds

    def _now(self) -> datetime:
        """Return the time of the object store, which also timestamps the lock: the local clock may be wrong."""
        probe = f"{self._name}.{self._record.token}"
        self._storage.add(probe, b"")
        try:
            stored = self._storage.get_object(probe)
        finally:
            self._storage.remove(probe)
        return datetime.now(UTC) if stored is None else stored.written_at

    def _release(self) -> None:
        # A lease that cannot be released expires.
        with suppress(ClewError):
            stored = self._storage.get_object(self._name)
            if stored is not None and self._is_own(stored) and _clock() < self._valid_until:
                self._storage.remove(self._name)

    def _is_own(self, stored: StoredObject) -> bool:
        record = parse_lease(stored)
        return record is not None and record.token == self._record.token

    def _encode(self) -> bytes:
        return msgspec.json.encode(self._record)


def read_lease(storage: S3Storage, name: str) -> LeaseRecord | None:
    """Read the current lease, if any. Uses the local clock, because reading must not write a probe."""
    stored = storage.get_object(name)
    record = None if stored is None else parse_lease(stored)
    if stored is None or record is None:
        return None
    return record if (datetime.now(UTC) - stored.written_at).total_seconds() <= record.lease_seconds else None


def parse_lease(stored: StoredObject) -> LeaseRecord | None:
    """Parse the lock object; None if it is invalid."""
    try:
        return _decode(stored.content)
    except msgspec.DecodeError:
        return None


def _new_record(seconds: float) -> LeaseRecord:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return LeaseRecord(os.getpid(), socket.gethostname(), since, seconds, uuid.uuid4().hex)
