"""NDJSON event files: plain, gzip or zstd."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final

from clew.errors import ClewError, UsageError

_EXTENSIONS = ("jsonl", "ndjson")
COMPRESSED_SUFFIXES: Final = (".gz", ".zst")
_PATTERNS = tuple(f"*.{kind}{archive}" for kind in _EXTENSIONS for archive in ("", *COMPRESSED_SUFFIXES))
# Small: a frame can expand a thousandfold.
_BYTES_PER_READ = 16 << 10

OnBytesRead = Callable[[int], None]


def find_event_files(paths: list[Path]) -> Iterator[Path]:
    """Yield the given files, and the event files below the given folders."""
    for path in paths:
        if path.is_dir():
            yield from sorted(file for pattern in _PATTERNS for file in path.rglob(pattern))
        elif path.is_file():
            yield path
        else:
            hint = "Pass NDJSON event files or a folder of them."
            raise UsageError(f"No such file or folder: {path}.", hint=hint)


def read_event_lines(path: Path, on_bytes_read: OnBytesRead = lambda _: None) -> Iterator[bytes]:
    """Yield the non-empty lines of a file; `on_bytes_read` receives the file position."""
    count = 0
    try:
        with path.open("rb") as raw, _decompress(path, raw) as file:
            for line in file:
                if line.strip():
                    count += 1
                    yield line
                    on_bytes_read(raw.tell())
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        hint = "They are stored. Fix the file and import it again; duplicates are skipped."
        raise ClewError(f"Cannot read {path}: {reason}. Events read before the error: {count:,}.", hint=hint) from error


def _decompress(path: Path, raw: BinaryIO) -> AbstractContextManager[Iterable[bytes]]:
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    return io.BufferedReader(_ChunkReader(_read_zstd(raw))) if path.suffix == ".zst" else raw


class _ChunkReader(io.RawIOBase):
    """File object over an iterator of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _read_zstd(raw: BinaryIO) -> Iterator[bytes]:
    """Decompress zstd frames. The library's reader does not detect a truncated file."""
    import zstandard

    decompressor, frame = zstandard.ZstdDecompressor(max_window_size=1 << 31), None
    try:
        while data := raw.read(_BYTES_PER_READ):
            while data:
                frame = frame or decompressor.decompressobj()
                yield frame.decompress(data)
                data, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from error
    if frame is not None:
        raise EOFError("the last zstd frame is incomplete")
