"""Sending streams to an endpoint. The files are the spool: what is not acknowledged yet is sent again, later."""

from __future__ import annotations

import fcntl
import http.client
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from clew.capture.streams.applications import Applications
from clew.capture.streams.endpoint import Endpoint
from clew.capture.streams.files import DATAFRAME, LINEAGE, RUNTIME, SPARK
from clew.capture.streams.log import FOLDER, logs_in

_STATE = "delivery.json"
_OPENLINEAGE: Final = (LINEAGE, SPARK)
_SENT: Final = (*_OPENLINEAGE, RUNTIME, DATAFRAME)
_EVENTS_PER_NOTE = 50
_MOST_BYTES = 1 << 16
_ACCEPTED = range(200, 300)
# What an endpoint answers to an event that it will never take. It stays in its file.
_REFUSED: Final = (400, 413, 415, 422)
_UNKNOWN: Final = (404, 405, 501)


class Delivered(Struct):
    """How many bytes of each file the endpoint has, and how many of its events it refused."""

    sent: dict[str, int]
    refused: int = 0


class UnreachableError(Exception):
    """The endpoint is down, or takes nothing now."""


class Delivery:
    """Sends what is written to the streams of one folder, each event at least once."""

    def __init__(self, folder: Path, endpoint: Endpoint) -> None:
        self._folder = folder
        self._path = folder / FOLDER / _STATE
        self._endpoint = endpoint
        self._unknown: set[str] = set()
        self._connection: http.client.HTTPConnection | None = None
        self._state: int | None = None
        self._applications = Applications()
        self.delivered = Delivered({})

    def begin(self) -> bool:
        """Take the folder in hand; False if somebody else sends it. What it held before is not sent."""
        note_beginning(self._folder)
        state = os.open(self._path, os.O_RDWR)
        try:
            fcntl.flock(state, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(state)
            return False
        self._state = state
        self.delivered = msgspec.json.decode(os.pread(state, _MOST_BYTES, 0), type=Delivered)
        return True

    def go_on(self) -> bool:
        """Send what waits; False if the endpoint did not take all of it."""
        try:
            for stream in _SENT:
                self._send(stream)
        except (UnreachableError, OSError, http.client.HTTPException):
            self._hang_up()
            return False
        finally:
            self._note()
        return True

    def end(self) -> None:
        """Leave the folder; nothing that was needed for the work stays in it if all is sent."""
        self._hang_up()
        if self._state is not None:
            if not self.waiting():
                self._path.unlink(missing_ok=True)
                with suppress(OSError):
                    # There are logs yet.
                    self._path.parent.rmdir()
            os.close(self._state)
            self._state = None

    @property
    def is_growing(self) -> bool:
        """Whether more will come though the kernel is gone: its JVM ends after it."""
        return bool(self._applications.running)

    def waiting(self) -> int:
        """How many bytes are still to be sent."""
        if logs_in(self._folder):
            # Of more than there is in the files.
            return 1
        return sum(_size(self._folder, name) - self._sent(name) for name in _SENT if name not in self._unknown)

    def _send(self, stream: str) -> None:
        if stream in self._unknown or _size(self._folder, stream) <= self._sent(stream):
            return
        for count, line in enumerate(self._lines(stream), start=1):
            status = self._post(stream, line)
            if status in _UNKNOWN and stream not in _OPENLINEAGE:
                # An endpoint of somebody else: it takes OpenLineage alone.
                self._unknown.add(stream)
                return
            if status in _REFUSED:
                self.delivered.refused += 1
            elif status not in _ACCEPTED:
                raise UnreachableError
            if stream == SPARK:
                self._applications.follow(line)
            self.delivered.sent[stream] = self._sent(stream) + len(line)
            if count % _EVENTS_PER_NOTE == 0:
                self._note()

    def _lines(self, stream: str) -> Iterator[bytes]:
        with (self._folder / stream).open("rb") as file:
            file.seek(self._sent(stream))
            for line in file:
                if line.endswith(b"\n"):
                    yield line

    def _post(self, stream: str, line: bytes) -> int:
        if self._connection is None:
            self._connection = self._endpoint.connection()
        self._connection.request("POST", self._endpoint.target(stream), line.rstrip(b"\n"), self._endpoint.headers())
        response = self._connection.getresponse()
        response.read()
        return response.status

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _sent(self, stream: str) -> int:
        return self.delivered.sent.get(stream, 0)

    def _note(self) -> None:
        if self._state is None:
            return
        # Numbers only grow, so that the text never gets shorter.
        os.pwrite(self._state, msgspec.json.encode(self.delivered), 0)


def note_beginning(folder: Path) -> None:
    """Note that what is written to a folder from now on is to be sent, unless that is noted already.

    Whole or not at all: without it nobody would know what is still to be sent.
    """
    path = folder / FOLDER / _STATE
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_bytes(msgspec.json.encode(Delivered({name: _size(folder, name) for name in _SENT})))
    with suppress(FileExistsError):
        # Somebody else was faster.
        path.hardlink_to(draft)
    draft.unlink()


def _size(folder: Path, stream: str) -> int:
    path = folder / stream
    return path.stat().st_size if path.exists() else 0


def undelivered_below(root: Path) -> list[Path]:
    """The folders below `root` that an earlier worker could not deliver."""
    return [path.parent.parent for path in sorted(root.glob(f"*/{FOLDER}/{_STATE}"))]
