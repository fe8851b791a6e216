"""Post-import hooks: run a callback when a module is imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from clew.capture.losses import record_error

Callback = Callable[[], None]


class _Loader(importlib.abc.Loader):
    """Loader that delegates to the original one, then runs the callback."""

    def __init__(self, original: Any, callback: Callback) -> None:
        self._original = original
        self._callback = callback

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._original.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        # Restore the original loader for later inspection of the module.
        if module.__spec__ is not None:
            module.__spec__.loader = self._original
        module.__loader__ = self._original
        self._original.exec_module(module)
        _run_callback(module.__name__, self._callback)


class _Finder(importlib.abc.MetaPathFinder):
    """Finder that wraps the loaders found by other finders in `_Loader`."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callback] = {}
        self._resolving: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del target
        # The callback stays registered: marimo looks up the spec of pandas without importing it.
        if fullname not in self.callbacks or fullname in self._resolving:
            return None
        self._resolving.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname) if path is None else _find_spec_in_path(fullname, path)
        finally:
            self._resolving.discard(fullname)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self.callbacks[fullname])
        return spec


def _find_spec_in_path(fullname: str, path: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            continue
        spec = finder.find_spec(fullname, path)
        if spec is not None:
            return spec
    return None


_finder = _Finder()


def when_imported(name: str, callback: Callback) -> None:
    """Run `callback` once `name` has been imported; immediately if it already is."""
    if name in sys.modules:
        _run_callback(name, callback)
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.callbacks[name] = callback


def _run_callback(name: str, callback: Callback) -> None:
    try:
        callback()
    except Exception as error:  # noqa: BLE001 - an import by the user must not fail because of clew
        record_error(f"import {name}", error)
