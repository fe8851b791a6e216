"""Event ids and job versions."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5, sha256
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


# Control characters that do not occur in names: between parts, between datasets, and between namespace and name.
PART_SEPARATOR: Final = "\x1f"
ITEM_SEPARATOR: Final = "\x1e"
NAME_SEPARATOR: Final = "\x1d"

Identity = tuple[str, str]


def compute_job_version(
    job: Identity, inputs: Iterable[Identity], outputs: Iterable[Identity], location: str | None = None
) -> str:
    """Compute the version of a job; `clew.pipeline.derive` computes the same in Spark."""
    return compute_job_version_from_keys(
        job, set(map(NAME_SEPARATOR.join, inputs)), set(map(NAME_SEPARATOR.join, outputs)), location
    )


def compute_job_version_from_keys(job: Identity, inputs: set[str], outputs: set[str], location: str | None) -> str:
    """Compute the version from dataset keys, which are namespace and name joined by NAME_SEPARATOR."""
    parts = (*job, ITEM_SEPARATOR.join(sorted(inputs)), ITEM_SEPARATOR.join(sorted(outputs)), location or "")
    # MD5 because Spark has it too.
    digest = md5(PART_SEPARATOR.join(parts).encode(), usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"
