"""Bodies that are too large to be held in memory: they come into a file, are looked at there and copied to the log."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from clew.collector.appender import Appender
from clew.collector.log import Entry
from clew.collector.namespaces import namespaces_of
from clew.collector.payloads import Taken
from clew.errors import ClewError
from clew.events.identity import JSON_SPACE, NO_NEWLINES, content_id
from clew.events.received import decode_text
from clew.events.rejection import Reason, RejectedError
from clew.events.stream import Stream
from clew.serving.grants import Grant

_PIECE_BYTES = 1 << 20
# While one is looked at, all of it is in memory.
_ONE_AT_A_TIME = threading.Lock()


class Spooled:
    """A body in a file of its own, which goes when the body was dealt with."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # closed by `__exit__`
        except OSError as fault:
            raise _no_room(folder, fault) from fault
        self._folder = folder
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def add(self, piece: bytes | bytearray) -> None:
        """Put a piece behind those before."""
        try:
            self._file.write(piece)
        except OSError as fault:
            raise _no_room(self._folder, fault) from fault
        self.bytes += len(piece)

    def read(self) -> bytes:
        """All of it."""
        self._file.seek(0)
        return self._file.read()

    @contextmanager
    def mapped(self) -> Iterator[mmap.mmap]:
        """All of it as one text in memory, which may be changed; few are held at a time."""
        self._file.flush()
        with _ONE_AT_A_TIME, mmap.mmap(self._file.fileno(), 0) as text:
            yield text


def store_spooled(spooled: Spooled, stream: Stream, source: str, grant: Grant, appender: Appender) -> Taken:
    """Store the one event that a body is, and wait for it.

    RejectedError for what can never be kept, NotAllowedError for what the sender may not send.
    """
    with spooled.mapped() as text:
        _require_text(text)
        flaw = _flaw_of(text, stream)
        if flaw is not None and flaw.reason.is_final:
            raise flaw
        if not grant.is_everywhere:
            with memoryview(text) as body:
                grant.require_namespaces(namespaces_of(body))
        _on_one_line(text)
        with memoryview(text) as whole, whole[slice(*_span(text))] as body:
            entry = Entry(stream, source, body, is_json=True, identity=content_id(body))
            appender.store([entry]).result()
    # Without the body, which is no longer in memory.
    return Taken(msgspec.structs.replace(entry, body=b""), flaw)


def _require_text(text: mmap.mmap) -> None:
    decoder = getincrementaldecoder("utf-8")()
    for start in range(0, len(text), _PIECE_BYTES):
        try:
            decoder.decode(text[start : start + _PIECE_BYTES], start + _PIECE_BYTES >= len(text))
        except UnicodeDecodeError as fault:
            raise RejectedError(Reason.NOT_UTF8, f"byte {start + fault.start} is no UTF-8") from None


def _flaw_of(text: mmap.mmap, stream: Stream) -> RejectedError | None:
    with memoryview(text) as body:
        try:
            decode_text(stream, body)
        except RejectedError as fault:
            # A new one: that which was raised holds on to the text.
            return RejectedError(fault.reason, fault.detail)
    return None


def _span(text: mmap.mmap) -> tuple[int, int]:
    """Where the document begins and ends, without the space around it."""
    start, end = 0, len(text)
    while text[start] in JSON_SPACE:
        start += 1
    while text[end - 1] in JSON_SPACE:
        end -= 1
    return start, end


def _on_one_line(text: mmap.mmap) -> None:
    """In JSON, a raw CR or LF can only stand between tokens."""
    for start in range(0, len(text), _PIECE_BYTES):
        piece = text[start : start + _PIECE_BYTES]
        if b"\n" in piece or b"\r" in piece:
            text[start : start + len(piece)] = piece.translate(NO_NEWLINES)
    # Given back: what was changed is in the file.
    text.madvise(mmap.MADV_DONTNEED)


def _no_room(folder: Path, fault: OSError) -> ClewError:
    message = f"A large event cannot be written to {folder}: {os.strerror(fault.errno or 0)}."
    return ClewError(message, hint="Make room on the disk, then send it again.")
