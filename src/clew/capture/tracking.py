"""`track()` and `untrack()`: install capture now or when a library is imported."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from clew.capture.diagnostics import record_error
from clew.capture.introspection.user_code import is_user_code

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


_state = {"on": False}


def is_disabled() -> bool:
    """Return whether the environment disables capture."""
    return os.environ.get("CLEW_DISABLED", "") not in ("", "0", "false")


def is_tracking() -> bool:
    """Return whether capture is on."""
    return _state["on"]


def track() -> None:
    """Start capture: attach lineage to frames and write events of cells."""
    if is_disabled() or _state["on"]:
        return
    _state["on"] = True
    when_imported("pandas", _patch_pandas)
    when_imported("duckdb", _patch_duckdb)
    when_imported("marimo", _patch_marimo)
    when_imported("polars", _patch_polars)
    from clew.capture.environments import ipython, marimo, script, spark

    marimo.install()
    ipython.install()
    spark.install()
    caller = sys._getframe(1)
    if caller.f_globals.get("__name__") == "__main__" and is_user_code(caller.f_code) and not marimo.is_running():
        script.start_script_execution(caller.f_globals)


def untrack() -> None:
    """Stop capture and remove all patches."""
    _state["on"] = False
    if "pandas" in sys.modules:
        from clew.capture.backends.pandas.methods import uninstall

        uninstall()
    if "polars" in sys.modules:
        from clew.capture.backends.polars.backend import uninstall as uninstall_polars

        uninstall_polars()
    from clew.capture.backends.duckdb.backend import remove_patches

    remove_patches()


def _patch_duckdb() -> None:
    if _state["on"]:
        from clew.capture.backends.duckdb.backend import patch_duckdb

        patch_duckdb()


def _patch_marimo() -> None:
    if _state["on"]:
        from clew.capture.backends.duckdb.backend import patch_marimo

        patch_marimo()


def _patch_polars() -> None:
    if _state["on"]:
        from clew.capture.backends.polars.backend import install

        install()


def _patch_pandas() -> None:
    if not _state["on"]:
        return
    from clew.capture.backends.pandas.methods import install

    install()
    # Registers the accessor `df.lineage`. By name: the display layer, which it uses, depends on capture.
    importlib.import_module("clew.pandas")
