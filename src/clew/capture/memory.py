"""How much memory this process holds."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_STATM = Path("/proc/self/statm")
_MEGABYTE = 1024 * 1024


def memory_mb() -> float:
    """Resident memory in MB; where the system does not say, the peak so far."""
    try:
        return round(int(_STATM.read_bytes().split()[1]) * _PAGE / _MEGABYTE, 2)
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return round(peak / _MEGABYTE if sys.platform == "darwin" else peak / 1024, 2)
