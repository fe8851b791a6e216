"""Files of events, one a line: plain, gzip or zstd."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final

from clew.errors import ClewError, UsageError

_PLAIN = ("jsonl", "ndjson")
ARCHIVES: Final = (".gz", ".zst")
_PATTERNS = tuple(f"*.{kind}{archive}" for kind in _PLAIN for archive in ("", *ARCHIVES))
# Small, because a frame may hold a thousand times as much as it takes.
_BYTES_PER_READ = 16 << 10

Advance = Callable[[int], None]


def event_files(paths: list[Path]) -> Iterator[Path]:
    """The files that are named, and those in folders that are, however deep."""
    for path in paths:
        if path.is_dir():
            yield from sorted(file for pattern in _PATTERNS for file in path.rglob(pattern))
        elif path.is_file():
            yield path
        else:
            hint = "Name NDJSON files of events, or a folder of them."
            raise UsageError(f"There is no file or folder {path}.", hint=hint)


def event_lines(path: Path, advance: Advance = lambda _: None) -> Iterator[bytes]:
    """The lines of a file that are not empty; `advance` is told how many bytes of the file are read."""
    count = 0
    try:
        with path.open("rb") as raw, _opened(path, raw) as file:
            for line in file:
                if line.strip():
                    count += 1
                    yield line
                    advance(raw.tell())
    except (OSError, EOFError, zlib.error) as fault:
        reason = getattr(fault, "strerror", None) or fault
        events = f"{count:,} event{'' if count == 1 else 's'}"
        hint = "They are stored. Mend the file and take it in again: nothing is doubled."
        raise ClewError(f"{path} cannot be read: {reason}. Before that, {events} could be read.", hint=hint) from fault


def _opened(path: Path, raw: BinaryIO) -> AbstractContextManager[Iterable[bytes]]:
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    return io.BufferedReader(_Parts(_zstd_parts(raw))) if path.suffix == ".zst" else raw


class _Parts(io.RawIOBase):
    """Parts of a text as one file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._left:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._left = memoryview(part)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def _zstd_parts(raw: BinaryIO) -> Iterator[bytes]:
    """What the frames hold. The library's own reader takes a file that was cut for one that has ended."""
    import zstandard

    decompressor, frame = zstandard.ZstdDecompressor(max_window_size=1 << 31), None
    try:
        while data := raw.read(_BYTES_PER_READ):
            while data:
                frame = frame or decompressor.decompressobj()
                yield frame.decompress(data)
                data, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    except zstandard.ZstdError as fault:
        raise OSError(str(fault)) from fault
    if frame is not None:
        raise EOFError("the file ends within a frame")
