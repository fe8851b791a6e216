"""A compact sorted table of strings; a string's number is its position."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from clew.index.keys import prefix_end

Bytes = bytes | memoryview
Numbers = Sequence[int]


class StringTable:
    """Distinct strings in one buffer, sorted by their UTF-8 bytes."""

    def __init__(self, offsets: Numbers, body: Bytes) -> None:
        self.offsets = offsets
        self.body = body

    @classmethod
    def from_strings(cls, texts: Iterable[str]) -> StringTable:
        """Build a table of distinct strings."""
        return cls._from_sorted(sorted(texts, key=str.encode))

    @classmethod
    def from_mapping(cls, numbers: Mapping[str, int]) -> tuple[StringTable, array[int]]:
        """Build a table of strings numbered from 0; also return the position of each by its given number."""
        ordered = sorted(numbers, key=str.encode)
        positions = array("I", bytes(4 * len(ordered)))
        for position, text in enumerate(ordered):
            positions[numbers[text]] = position
        return cls._from_sorted(ordered), positions

    @classmethod
    def _from_sorted(cls, texts: list[str]) -> StringTable:
        offsets, body = array("Q", [0]), bytearray()
        for text in texts:
            body += text.encode()
            offsets.append(len(body))
        return cls(offsets, bytes(body))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> str:
        return str(self.body[self.offsets[number] : self.offsets[number + 1]], "utf-8")

    def last_byte(self, number: int) -> int:
        """Return the last byte of a non-empty string."""
        return self.body[self.offsets[number + 1] - 1]

    def find(self, text: str) -> int | None:
        """Return the number of a string, or None."""
        encoded = text.encode()
        position = self._position(encoded)
        return position if position < len(self) and self._bytes(position) == encoded else None

    def prefix_range(self, prefix: str) -> range:
        """Return the numbers of all strings with a prefix, which must end with a key separator."""
        return range(self._position(prefix.encode()), self._position(prefix_end(prefix).encode()))

    def _position(self, encoded: bytes) -> int:
        return bisect_left(range(len(self)), encoded, key=self._bytes)

    def _bytes(self, number: int) -> bytes:
        return bytes(self.body[self.offsets[number] : self.offsets[number + 1]])
