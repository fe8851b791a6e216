"""Entry point that marimo loads in every kernel: starts capture with the launcher's clew.

The kernel of a sandbox sees none of the user's packages. clew and the one package it needs are imported from the
folders in `CLEW_PATH`; nothing else in those folders becomes importable.
"""  # noqa: INP001 - marimo finds it by the entry point next to it

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_PACKAGES = ("clew", "msgspec")


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        del target
        if path is not None or name not in _PACKAGES:
            return None
        return PathFinder.find_spec(name, os.environ.get("CLEW_PATH", "").split(os.pathsep))


# Last: packages of the kernel's own environment take precedence.
sys.meta_path.append(_Finder)

try:
    from clew.capture.autostart import lifespan
except ImportError as missing:
    sys.stderr.write(f"clew: cannot be loaded here ({missing}): nothing is captured\n")

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        """Do nothing."""
        yield
