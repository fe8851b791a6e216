"""Whether a collector could store an event that came now."""

from __future__ import annotations

import os
import shutil

from clew.collector.appender import Appender
from clew.errors import ClewError

# What a few seconds of events take: below it, most would be refused.
_LEAST_FREE_BYTES = 16 << 20


def require_ready(appender: Appender) -> None:
    """ClewError with the reason if it could not."""
    appender.require_ready()
    folder = appender.folder
    if not os.access(folder, os.W_OK):
        raise ClewError(f"The log {folder} cannot be written to.", hint="Check whose folder it is.")
    free = shutil.disk_usage(folder).free
    if free < _LEAST_FREE_BYTES:
        raise ClewError(f"Only {free >> 20} MB are free on the disk of {folder}.", hint="Make room on the disk.")
