"""Large request bodies: written to a file, validated there and copied to the log."""

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
from clew.collector.log import LogEntry
from clew.collector.namespaces import event_namespaces
from clew.collector.payloads import IngestResult
from clew.errors import ClewError
from clew.events.identity import JSON_WHITESPACE, NEWLINES_TO_SPACES, content_id
from clew.events.received import decode_utf8
from clew.events.rejection import RejectedError, RejectionReason
from clew.events.stream import Stream
from clew.serving.grants import Principal

_CHUNK_BYTES = 1 << 20
# One at a time: a body that is validated is resident in memory.
_MMAP_LOCK = threading.Lock()


class SpooledBody:
    """Request body in a temporary file."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # closed by `__exit__`
        except OSError as error:
            raise _write_error(folder, error) from error
        self._folder = folder
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close and delete the file."""
        self._file.close()

    def write(self, chunk: bytes | bytearray) -> None:
        """Append a chunk."""
        try:
            self._file.write(chunk)
        except OSError as error:
            raise _write_error(self._folder, error) from error
        self.bytes += len(chunk)

    def read(self) -> bytes:
        """Return the whole body."""
        self._file.seek(0)
        return self._file.read()

    @contextmanager
    def map_memory(self) -> Iterator[mmap.mmap]:
        """Map the body into memory, writable; one body at a time."""
        self._file.flush()
        with _MMAP_LOCK, mmap.mmap(self._file.fileno(), 0) as text:
            yield text


def ingest_spooled(
    spooled: SpooledBody, stream: Stream, source: str, principal: Principal, appender: Appender
) -> IngestResult:
    """Store a body that is a single event and wait until it is synced.

    Raises RejectedError for an event that cannot be stored, ForbiddenError for a namespace without access.
    """
    with spooled.map_memory() as text:
        _check_utf8(text)
        error = _find_error(text, stream)
        if error is not None and error.reason.is_permanent:
            raise error
        if not principal.is_unrestricted:
            with memoryview(text) as body:
                principal.check_namespaces(event_namespaces(body))
        _remove_newlines(text)
        with memoryview(text) as view, view[slice(*_document_span(text))] as body:
            entry = LogEntry(stream, source, body, is_json=True, event_id=content_id(body))
            appender.submit([entry]).result()
    # The mapping of the body is closed.
    return IngestResult(msgspec.structs.replace(entry, body=b""), error)


def _check_utf8(text: mmap.mmap) -> None:
    decoder = getincrementaldecoder("utf-8")()
    for start in range(0, len(text), _CHUNK_BYTES):
        try:
            decoder.decode(text[start : start + _CHUNK_BYTES], start + _CHUNK_BYTES >= len(text))
        except UnicodeDecodeError as error:
            raise RejectedError(RejectionReason.NOT_UTF8, f"byte {start + error.start} is not UTF-8") from None


def _find_error(text: mmap.mmap, stream: Stream) -> RejectedError | None:
    with memoryview(text) as body:
        try:
            decode_utf8(stream, body)
        except RejectedError as error:
            # A copy: the raised error references the mapping.
            return RejectedError(error.reason, error.detail)
    return None


def _document_span(text: mmap.mmap) -> tuple[int, int]:
    """Return start and end of the document without surrounding whitespace."""
    start, end = 0, len(text)
    while text[start] in JSON_WHITESPACE:
        start += 1
    while text[end - 1] in JSON_WHITESPACE:
        end -= 1
    return start, end


def _remove_newlines(text: mmap.mmap) -> None:
    """Replace CR and LF, which JSON allows only between tokens."""
    for start in range(0, len(text), _CHUNK_BYTES):
        chunk = text[start : start + _CHUNK_BYTES]
        if b"\n" in chunk or b"\r" in chunk:
            text[start : start + len(chunk)] = chunk.translate(NEWLINES_TO_SPACES)
    # Release the pages; changes are in the file.
    text.madvise(mmap.MADV_DONTNEED)


def _write_error(folder: Path, error: OSError) -> ClewError:
    message = f"Cannot write a large event to {folder}: {os.strerror(error.errno or 0)}."
    return ClewError(message, hint="Free disk space, then send the event again.")
