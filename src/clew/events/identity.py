"""Ids derived from content: equal bytes have equal ids."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

ID_DIGITS: Final = 32
# hashlib releases the GIL for more bytes than this.
_MAX_GIL_HELD_BYTES = 2047
JSON_WHITESPACE: Final = b" \t\r\n"
NEWLINES_TO_SPACES: Final = bytes.maketrans(b"\r\n", b"  ")


def to_single_line(document: bytes) -> bytes:
    """Put a JSON document on one line: a raw CR or LF can only occur between tokens."""
    text = document.strip(JSON_WHITESPACE)
    # The search costs an eighth of a copy, and most clients send one line.
    return text.translate(NEWLINES_TO_SPACES) if b"\n" in text or b"\r" in text else text


def content_id(body: bytes | memoryview) -> str:
    """Return 32 hex digits of the SHA-256 of the bytes."""
    # CPUs have SHA instructions: half the time of blake2b.
    return sha256(body, usedforsecurity=False).hexdigest()[:ID_DIGITS]


event_id = content_id


def content_id_holding_gil(body: bytes | memoryview) -> str:
    """Return the same id without releasing the GIL, which a busy thread would then hold for a long time."""
    digest = sha256(usedforsecurity=False)
    with memoryview(body) as view:
        for start in range(0, len(view), _MAX_GIL_HELD_BYTES):
            digest.update(view[start : start + _MAX_GIL_HELD_BYTES])
    return digest.hexdigest()[:ID_DIGITS]
