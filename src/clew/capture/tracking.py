"""`track()` and `untrack()`: install capture now or when a library is imported."""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from clew.capture.backends.base import BACKEND_NAMES, get_backend, used_backends
from clew.capture.diagnostics import record_error
from clew.capture.introspection.user_code import is_user_code

Callback = Callable[[], None]
# Modules of charts and models; the hooks are imported with the first of them.
_CONSUMER_MODULE = "clew.capture.backends.consumers"
_CONSUMERS = (
    "altair",
    "marimo._plugins.ui._impl.table",
    "matplotlib.axes._axes",
    "pandas.plotting._core",
    "plotly.express",
    "seaborn",
    "sklearn.base",
)


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
    for name in BACKEND_NAMES:
        when_imported(name, functools.partial(_install_backend, name))
    when_imported("marimo", functools.partial(_install_in_library, "marimo"))
    when_imported("ibis.expr.types.core", functools.partial(_install_in_library, "ibis"))
    for name in ("sqlite3", "psycopg"):
        when_imported(name, functools.partial(_install_driver, name))
    for name in _CONSUMERS:
        when_imported(name, functools.partial(_install_consumer, name))
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
    for backend in used_backends():
        backend.uninstall()
    if _CONSUMER_MODULE in sys.modules:
        sys.modules[_CONSUMER_MODULE].uninstall_consumers()
    if "clew.capture.backends.sql_query" in sys.modules:
        sys.modules["clew.capture.backends.sql_query"].uninstall_drivers()


def _install_backend(name: str) -> None:
    if _state["on"]:
        get_backend(name).install()


def _install_consumer(name: str) -> None:
    if _state["on"]:
        importlib.import_module(_CONSUMER_MODULE).CONSUMERS[name]()


def _install_in_library(name: str) -> None:
    if _state["on"]:
        from clew.capture.backends.duckdb.backend import BACKEND

        install = BACKEND.install_in_marimo if name == "marimo" else BACKEND.install_in_ibis
        install()


def _install_driver(name: str) -> None:
    if _state["on"]:
        from clew.capture.backends.sql_query import install_driver

        install_driver(name)
