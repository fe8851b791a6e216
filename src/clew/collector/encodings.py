"""Compressed bodies, inflated piece by piece, so that a small one that claims to be huge is found out in time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final

import zstandard

from clew.errors import ClewError

_PIECE_BYTES = 1 << 20
# Of zstd, a few bytes can stand for 128 KB, and what a call inflates to is not bounded but by what it is given.
_ZSTD_BYTES = 1 << 10
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32

Inflate = Callable[[bytes], Iterator[bytes]]


class MalformedBodyError(ClewError):
    """A body that is not what its headers say."""


class UnknownEncodingError(ClewError):
    """A body in an encoding that is not known here."""


class _Gzip:
    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._is_begun = False

    def feed(self, text: bytes) -> Iterator[bytes]:
        while text:
            if self._inflater.eof:
                self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
            try:
                piece = self._inflater.decompress(text, _PIECE_BYTES)
            except zlib.error as fault:
                raise MalformedBodyError(f"The body is no gzip: {fault}.") from fault
            if piece:
                yield piece
            text = self._inflater.unconsumed_tail or self._inflater.unused_data
        self._is_begun = True

    def finish(self) -> None:
        if self._is_begun and not self._inflater.eof:
            raise MalformedBodyError("The body ends in the middle of its gzip stream.")


class _Zstd:
    def __init__(self) -> None:
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._inflater = self._new()
        self._is_begun = False

    def feed(self, text: bytes) -> Iterator[bytes]:
        for start in range(0, len(text), _ZSTD_BYTES):
            left = text[start : start + _ZSTD_BYTES]
            while left:
                if self._inflater.eof:
                    self._inflater = self._new()
                try:
                    piece = self._inflater.decompress(left)
                except zstandard.ZstdError as fault:
                    raise MalformedBodyError(f"The body is no zstd: {fault}.") from fault
                if piece:
                    yield piece
                left = self._inflater.unused_data if self._inflater.eof else b""
            self._is_begun = True

    def finish(self) -> None:
        if self._is_begun and not self._inflater.eof:
            raise MalformedBodyError("The body ends in the middle of its zstd frame.")


class _Plain:
    def feed(self, text: bytes) -> Iterator[bytes]:
        yield text

    def finish(self) -> None:
        """A body that is not compressed may end anywhere."""


Inflater = _Plain | _Gzip | _Zstd

_INFLATERS: Final[dict[str, type[Inflater]]] = {
    "": _Plain,
    "identity": _Plain,
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Gzip,
    "zstd": _Zstd,
}


def inflater(encoding: str) -> Inflater:
    """What takes the pieces of a body with that Content-Encoding."""
    known = _INFLATERS.get(encoding.strip().lower())
    if known is None:
        raise UnknownEncodingError(f"The encoding {encoding!r} is not known.", hint="Send gzip, zstd or plain JSON.")
    return known()
