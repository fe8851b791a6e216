"""Readiness probe of the collector."""

from __future__ import annotations

import os
import shutil

from clew.collector.appender import Appender
from clew.errors import ClewError

# A few seconds of events.
_MIN_FREE_BYTES = 16 << 20


def check_ready(appender: Appender) -> None:
    """Raise ClewError if an event could not be stored now."""
    appender.check_ready()
    folder = appender.folder
    if not os.access(folder, os.W_OK):
        raise ClewError(f"The log {folder} is not writable.", hint="Check the owner of the folder.")
    free = shutil.disk_usage(folder).free
    if free < _MIN_FREE_BYTES:
        raise ClewError(f"Only {free >> 20} MB are free on the disk of {folder}.", hint="Free disk space.")
