"""Job versions: a hash of the job's inputs, outputs and source code location."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5
from typing import Final

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
