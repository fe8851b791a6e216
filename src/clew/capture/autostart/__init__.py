"""Capture inside kernels that marimo or Jupyter start as separate processes.

The folder `entry` holds a `sitecustomize` module, which imports this one, and an entry point for marimo. The launcher
puts it on PYTHONPATH, which also reaches sandboxes that do not use the user's environment.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clew.capture.tracking import track

ENTRY_FOLDER = Path(__file__).parent / "entry"


def is_capture_requested() -> bool:
    """Return whether the environment requests capture: installing clew alone changes nothing."""
    return os.environ.get("CLEW_CAPTURE", "") not in ("", "0", "false")


if is_capture_requested():
    track()


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[None]:
    """End the sessions of a kernel when it exits."""
    try:
        yield
    finally:
        from clew.capture.environments.cell_runner import end_sessions_of_thread

        end_sessions_of_thread()
