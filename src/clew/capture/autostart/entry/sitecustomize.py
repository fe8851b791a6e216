"""Capture in processes that the captured one starts: kernels of marimo and Jupyter, and programs that run notebooks.

The launcher puts this folder on PYTHONPATH. Python imports this module at every start, so it does nothing until a
kernel starts: marimo loads `kernel_lifespan` by the entry point next to it, and the modules below are observed.

The kernel of a sandbox sees none of the user's packages. clew and the one package it needs are imported from the
folders in `CLEW_PATH`; nothing else in those folders becomes importable.
"""  # noqa: INP001 - Python finds it by its name

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKAGES = ("clew", "msgspec")
# Imported by a kernel of Jupyter, and by programs that run notebooks.
_JUPYTER_MODULES = ("ipykernel.kernelapp", "nbclient.client")


class _PackageFinder:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        del target
        if path is not None or name not in _PACKAGES:
            return None
        return PathFinder.find_spec(name, os.environ["CLEW_PATH"].split(os.pathsep))


class _JupyterFinder:
    """Starts capture before the first of the modules of Jupyter is imported."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        del path, target
        if name not in _JUPYTER_MODULES:
            return None
        sys.meta_path.remove(_JupyterFinder)
        _load_clew()
        # From the start: capture observes imports with a finder of its own.
        return find_spec(name)


def _load_clew() -> Any:
    """Import clew, which starts capture; return None if it cannot be imported."""
    try:
        from clew.capture import autostart
    except ImportError as missing:
        sys.stderr.write(f"clew: cannot be loaded here ({missing}): nothing is captured\n")
        return None
    return autostart


@asynccontextmanager
async def _do_nothing() -> AsyncIterator[None]:
    yield


def kernel_lifespan(app: Any) -> AbstractAsyncContextManager[None]:
    """Start capture in a kernel of marimo, and end its sessions when it exits."""
    autostart = _load_clew()
    context: AbstractAsyncContextManager[None] = _do_nothing() if autostart is None else autostart.lifespan(app)
    return context


def _run_next_sitecustomize() -> None:
    """Run the module that this one hides."""
    own_folder = Path(__file__).parent
    spec = PathFinder.find_spec(__name__, [folder for folder in sys.path if Path(folder) != own_folder])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if os.environ.get("CLEW_PATH"):
    # Last: packages of the kernel's own environment take precedence.
    sys.meta_path.append(_PackageFinder)
    sys.meta_path.insert(0, _JupyterFinder)
_run_next_sitecustomize()
