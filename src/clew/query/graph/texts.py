"""Many texts in little room, in order: a text's number is its place."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from clew.index.keys import after

Bytes = bytes | memoryview
Numbers = Sequence[int]


class Texts:
    """Texts one behind the other, each once, by the order of their bytes."""

    def __init__(self, offsets: Numbers, body: Bytes) -> None:
        self.offsets = offsets
        self.body = body

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Put texts in order, of which no two are alike."""
        return cls._in_order(sorted(texts, key=str.encode))

    @classmethod
    def renumbered(cls, numbers: Mapping[str, int]) -> tuple[Texts, array[int]]:
        """Put texts in order that have numbers from 0 on; and the new number of each, by the old one."""
        ordered = sorted(numbers, key=str.encode)
        places = array("I", bytes(4 * len(ordered)))
        for place, text in enumerate(ordered):
            places[numbers[text]] = place
        return cls._in_order(ordered), places

    @classmethod
    def _in_order(cls, texts: list[str]) -> Texts:
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
        """The byte that a text ends with; it has one."""
        return self.body[self.offsets[number + 1] - 1]

    def find(self, text: str) -> int | None:
        """The number of a text; None if it is not among them."""
        encoded = text.encode()
        place = self._place(encoded)
        return place if place < len(self) and self._bytes(place) == encoded else None

    def beginning(self, prefix: str) -> range:
        """The numbers of all texts that begin so; the prefix ends where a part of a key ends."""
        return range(self._place(prefix.encode()), self._place(after(prefix).encode()))

    def _place(self, encoded: bytes) -> int:
        return bisect_left(range(len(self)), encoded, key=self._bytes)

    def _bytes(self, number: int) -> bytes:
        return bytes(self.body[self.offsets[number] : self.offsets[number + 1]])
