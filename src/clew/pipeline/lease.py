"""The lock of a lake in a bucket: an object that only one can make, and that its holder must renew to keep.

A folder's lock ends with the process that holds it. Nobody tells a bucket that a process has died, so a lock there says
how long it holds without a sign of life. Who finds one that has run out takes it over, in a put that only one can win.
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
from clew.lake.bucket import Bucket, Object, Version

LEASE_SECONDS: Final = 60.0
# Three signs of life may be lost.
_SIGNS_PER_LEASE = 4


class Claim(Struct, frozen=True):
    """What a lock says: who holds it, since when, and for how long after each sign of life."""

    pid: int
    host: str
    since: str
    lease_seconds: float
    token: str
    # Counts signs of life, so that each is another content and so another version.
    sign: int = 0


class LostError(ClewError):
    """Somebody else has the lock by now, or may have."""

    @classmethod
    def of(cls, name: str) -> LostError:
        """Say what that means."""
        message = f"The lock {name} could not be renewed in time, and another may hold it: nothing more is committed."
        hint = "Was this machine asleep, or its network down? Run it again: it goes on where it stopped."
        return cls(message, hint=hint)


_decode = msgspec.json.Decoder(Claim).decode
# Goes on while the machine sleeps, where the system has such a clock.
_clock = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """The lock of that name in a bucket; a thread renews it while it is held."""

    def __init__(self, bucket: Bucket, name: str, seconds: float | None = None) -> None:
        self._bucket = bucket
        self._name = name
        self._seconds = LEASE_SECONDS if seconds is None else seconds
        self._claim = _new_claim(self._seconds)
        self._version = Version("")
        self._valid_until = 0.0
        self._stop = Event()
        # Who held it when it was to be taken.
        self.rival: Claim | None = None

    def take(self) -> bool:
        """Take the lock if it is free, or its holder has given no sign of life for too long."""
        asked_at = _clock()
        version = self._bucket.create(self._name, self._text())
        if version is None:
            found = self._bucket.look(self._name)
            self.rival = None if found is None else claim_in(found)
            if found is None or self._is_over(found):
                version = self._replaced(found)
            elif self._is_own(found):
                # It was made, and the answer was lost.
                version = found.version
        return self._is_kept(version, asked_at)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renew a lock that was taken until the end, and then give it back."""
        thread = Thread(target=self._renew_again_and_again, name="clew-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            self._give_back()

    def require(self) -> None:
        """Refuse to go on without the lock."""
        if _clock() >= self._valid_until:
            raise LostError.of(self._name)

    def renew(self) -> None:
        """Give a sign of life; one that does not arrive is given again with the next."""
        asked_at = _clock()
        self._claim = msgspec.structs.replace(self._claim, sign=self._claim.sign + 1)
        version = self._bucket.exchange(self._name, self._text(), self._version)
        if version is None:
            # Either another has it, or a sign has arrived of which the answer was lost.
            found = self._bucket.look(self._name)
            version = found.version if found is not None and self._is_own(found) else None
            if version is None:
                self._valid_until = 0.0
                self._stop.set()
                return
        self._is_kept(version, asked_at)

    def _renew_again_and_again(self) -> None:
        while not self._stop.wait(self._seconds / _SIGNS_PER_LEASE):
            try:
                self.renew()
            except ClewError:
                # No network: the lock is held until its time is over, and `require` knows.
                continue

    def _is_kept(self, version: Version | None, asked_at: float) -> bool:
        if version is None:
            return False
        # From before the store was asked: for others the time begins when it has answered.
        self._version, self._valid_until = version, asked_at + self._seconds
        return True

    def _replaced(self, found: Object | None) -> Version | None:
        if found is None:
            return self._bucket.create(self._name, self._text())
        return self._bucket.exchange(self._name, self._text(), found.version)

    def _is_over(self, found: Object) -> bool:
        claim = claim_in(found)
        seconds = LEASE_SECONDS if claim is None else claim.lease_seconds
        return (self._now() - found.written_at).total_seconds() > seconds

    def _now(self) -> datetime:
        """The time by the store's clock, which has written the lock's time, too: this machine's may be wrong."""
        probe = f"{self._name}.{self._claim.token}"
        self._bucket.add(probe, b"")
        try:
            found = self._bucket.look(probe)
        finally:
            self._bucket.remove(probe)
        return datetime.now(UTC) if found is None else found.written_at

    def _give_back(self) -> None:
        # What cannot be given back ends by itself.
        with suppress(ClewError):
            found = self._bucket.look(self._name)
            if found is not None and self._is_own(found) and _clock() < self._valid_until:
                self._bucket.remove(self._name)

    def _is_own(self, found: Object) -> bool:
        claim = claim_in(found)
        return claim is not None and claim.token == self._claim.token

    def _text(self) -> bytes:
        return msgspec.json.encode(self._claim)


def claim_on(bucket: Bucket, name: str) -> Claim | None:
    """Who holds a lock now, if anyone does. By this machine's clock: a look must not write."""
    found = bucket.look(name)
    claim = None if found is None else claim_in(found)
    if found is None or claim is None:
        return None
    return claim if (datetime.now(UTC) - found.written_at).total_seconds() <= claim.lease_seconds else None


def claim_in(found: Object) -> Claim | None:
    """What a lock says; None if that is nothing that can be read."""
    try:
        return _decode(found.content)
    except msgspec.DecodeError:
        return None


def _new_claim(seconds: float) -> Claim:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return Claim(os.getpid(), socket.gethostname(), since, seconds, uuid.uuid4().hex)
