"""Content-Encoding decoders. They decode in chunks, so that size limits apply before a bomb is expanded."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final

import zstandard

from clew.errors import ClewError

_CHUNK_BYTES = 1 << 20
# A few bytes of zstd can expand to 128 KB, and the output of a call is bounded only by its input.
_ZSTD_INPUT_BYTES = 1 << 10
_GZIP_OR_ZLIB_WBITS = zlib.MAX_WBITS | 32

Inflate = Callable[[bytes], Iterator[bytes]]


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
