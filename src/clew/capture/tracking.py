"""Turning capture on and off."""

from __future__ import annotations

import os
import sys

from clew.capture.callers import is_user_code
from clew.capture.imports import when_imported

_state = {"on": False}


def is_disabled() -> bool:
    """Whether the environment turns all capture off."""
    return os.environ.get("CLEW_DISABLED", "") not in ("", "0", "false")


def is_tracking() -> bool:
    """Whether capture is on."""
    return _state["on"]


def track() -> None:
    """Capture from now on: frames carry their lineage, and cells write their streams."""
    if is_disabled() or _state["on"]:
        return
    _state["on"] = True
    when_imported("pandas", _hook_pandas)
    when_imported("duckdb", _hook_duckdb)
    when_imported("marimo", _hook_marimo)
    when_imported("polars", _hook_polars)
    from clew.capture.adapters import ipython, marimo, script, spark

    marimo.watch()
    ipython.watch()
    spark.watch()
    caller = sys._getframe(1)
    if caller.f_globals.get("__name__") == "__main__" and is_user_code(caller.f_code) and not marimo.is_running():
        script.begin(caller.f_globals)


def untrack() -> None:
    """Stop capturing and take every wrapper out."""
    _state["on"] = False
    if "pandas" in sys.modules:
        from clew.capture.frames.catalogue import uninstall

        uninstall()
    if "polars" in sys.modules:
        from clew.capture.polars import hooks as polars_hooks

        polars_hooks.remove_hooks()
    from clew.capture.queries.hooks import remove_hooks

    remove_hooks()


def _hook_duckdb() -> None:
    if _state["on"]:
        from clew.capture.queries.hooks import hook_duckdb

        hook_duckdb()


def _hook_marimo() -> None:
    if _state["on"]:
        from clew.capture.queries.hooks import hook_marimo

        hook_marimo()


def _hook_polars() -> None:
    if _state["on"]:
        from clew.capture.polars.hooks import hook_polars

        hook_polars()


def _hook_pandas() -> None:
    if not _state["on"]:
        return
    from clew.capture.frames.catalogue import install
    from clew.capture.frames.lineage_accessor import give_accessor

    install()
    give_accessor()
