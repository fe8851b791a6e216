"""Versions of jobs, named by what makes them: what a job reads and writes, and where its code is."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5
from typing import Final

# Characters that no producer writes into a name: between the parts, the items of a list, and the halves of an item.
BETWEEN_PARTS: Final = "\x1f"
BETWEEN_ITEMS: Final = "\x1e"
BETWEEN_NAMES: Final = "\x1d"

Identity = tuple[str, str]


def job_version(
    job: Identity, inputs: Iterable[Identity], outputs: Iterable[Identity], location: str | None = None
) -> str:
    """The version of a job that reads and writes these datasets; `clew.pipeline.derive` says the same."""
    return version_of_texts(job, set(map(BETWEEN_NAMES.join, inputs)), set(map(BETWEEN_NAMES.join, outputs)), location)


def version_of_texts(job: Identity, inputs: set[str], outputs: set[str], location: str | None) -> str:
    """The same, of datasets whose names are joined already."""
    parts = (*job, BETWEEN_ITEMS.join(sorted(inputs)), BETWEEN_ITEMS.join(sorted(outputs)), location or "")
    # Names, not secrets: Spark has the same function.
    name = md5(BETWEEN_PARTS.join(parts).encode(), usedforsecurity=False).hexdigest()
    return f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"
