"""What marimo loads in every kernel: capture, from where the launcher has it.

The kernel of a sandbox sees none of the user's packages. clew and the one package it needs are found by name in the
folders that `CLEW_PATH` lists; nothing else in those folders becomes importable.
"""  # noqa: INP001 - marimo finds it by the entry point beside it

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_FOUND = ("clew", "msgspec")


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        del target
        if path is not None or name not in _FOUND:
            return None
        return PathFinder.find_spec(name, os.environ.get("CLEW_PATH", "").split(os.pathsep))


# Last: an environment that has its own uses that.
sys.meta_path.append(_Finder)

try:
    from clew.capture.autostart import lifespan
except ImportError as missing:
    sys.stderr.write(f"clew: cannot be loaded here ({missing}): nothing is captured\n")

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        """Around a kernel's life: nothing."""
        yield
