"""Request bodies: read, decompress, spool to disk."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import msgspec
import zstandard
from starlette.requests import Request

from clew.collector.file_import import guess_stream
from clew.collector.group_commit import Appender
from clew.collector.ingest import IngestResult, event_namespaces
from clew.errors import ClewError
from clew.eventlog.writer import LogEntry
from clew.events.decoding import RejectedError, RejectionReason
from clew.events.ids import JSON_WHITESPACE, NEWLINES_TO_SPACES, content_id
from clew.events.openlineage import decode_openlineage
from clew.events.streams import Stream, decode_utf8
from clew.server.auth import Principal

_CHUNK_BYTES = 1 << 20
# A few bytes of zstd can expand to 128 KB, and the output of a call is bounded only by its input.
_ZSTD_INPUT_BYTES = 1 << 10
_GZIP_OR_ZLIB_WBITS = zlib.MAX_WBITS | 32


class MalformedBodyError(ClewError):
    """Body that does not match its Content-Encoding (HTTP 400)."""


class UnsupportedEncodingError(ClewError):
    """Content-Encoding that is not supported (HTTP 415)."""


class _GzipDecoder:
    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB_WBITS)
        self._is_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inflater.eof:
                self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB_WBITS)
            try:
                chunk = self._inflater.decompress(data, _CHUNK_BYTES)
            except zlib.error as error:
                raise MalformedBodyError(f"The body is not valid gzip: {error}.") from error
            if chunk:
                yield chunk
            data = self._inflater.unconsumed_tail or self._inflater.unused_data
        self._is_begun = True

    def finish(self) -> None:
        if self._is_begun and not self._inflater.eof:
            raise MalformedBodyError("The gzip stream of the body is incomplete.")


class _ZstdDecoder:
    def __init__(self) -> None:
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._inflater = self._new()
        self._is_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_INPUT_BYTES):
            rest = data[start : start + _ZSTD_INPUT_BYTES]
            while rest:
                if self._inflater.eof:
                    self._inflater = self._new()
                try:
                    chunk = self._inflater.decompress(rest)
                except zstandard.ZstdError as error:
                    raise MalformedBodyError(f"The body is not valid zstd: {error}.") from error
                if chunk:
                    yield chunk
                rest = self._inflater.unused_data if self._inflater.eof else b""
            self._is_begun = True

    def finish(self) -> None:
        if self._is_begun and not self._inflater.eof:
            raise MalformedBodyError("The zstd frame of the body is incomplete.")


class _IdentityDecoder:
    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def finish(self) -> None:
        """Do nothing: an uncompressed body can end anywhere."""


ContentDecoder = _IdentityDecoder | _GzipDecoder | _ZstdDecoder

_DECODERS: Final[dict[str, type[ContentDecoder]]] = {
    "": _IdentityDecoder,
    "identity": _IdentityDecoder,
    "gzip": _GzipDecoder,
    "x-gzip": _GzipDecoder,
    "deflate": _GzipDecoder,
    "zstd": _ZstdDecoder,
}


def create_decoder(encoding: str) -> ContentDecoder:
    """Create the decoder for a Content-Encoding."""
    decoder = _DECODERS.get(encoding.strip().lower())
    if decoder is None:
        raise UnsupportedEncodingError(
            f"Unsupported Content-Encoding {encoding!r}.", hint="Use gzip, zstd or no encoding."
        )
    return decoder()


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

    def __exit__(self, *_: object) -> None:
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
        if error is not None and stream == Stream.OPENLINEAGE:
            with memoryview(text) as body:
                stream = guess_stream(body)
            error = error if stream == Stream.OPENLINEAGE else _find_error(text, stream)
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
            if stream is Stream.OPENLINEAGE:
                decode_openlineage(body, allows_reserved=False)
            else:
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


_SPOOL_THRESHOLD_BYTES = 256 << 10


class BodyTooLargeError(ClewError):
    """Request body above the limit (HTTP 413)."""


async def read_body(request: Request, spool_folder: Path, max_bytes: int) -> bytes | SpooledBody:
    """Read and decompress the body; the caller closes a SpooledBody."""
    decoder = create_decoder(request.headers.get("content-encoding", ""))
    buffer = bytearray()
    spooled: SpooledBody | None = None
    try:
        async for chunk in request.stream():
            for data in decoder.feed(chunk):
                buffer += data
                if spooled is None and len(buffer) > _SPOOL_THRESHOLD_BYTES:
                    spooled = SpooledBody(spool_folder)
                if spooled is not None:
                    spooled.write(buffer)
                    buffer.clear()
                    check_body_size(max_bytes, spooled.bytes)
        decoder.finish()
    except BaseException:
        if spooled is not None:
            spooled.close()
        raise
    return bytes(buffer) if spooled is None else spooled


def check_body_size(limit: int, size: int) -> None:
    """Raise BodyTooLargeError above the limit."""
    if size > limit:
        hint = "Send events one by one, or raise the limit with --max-body-mb."
        raise BodyTooLargeError(f"The body is larger than {limit >> 20} MB.", hint=hint)
