"""Switch capture on and off."""

from __future__ import annotations

import os
import sys

from clew.capture.callers import is_user_code
from clew.capture.imports import when_imported

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
    from clew.capture.adapters import ipython, marimo, script, spark

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
        from clew.capture.frames.catalogue import uninstall

        uninstall()
    if "polars" in sys.modules:
        from clew.capture.polars import hooks as polars_hooks

        polars_hooks.uninstall()
    from clew.capture.queries.hooks import remove_patches

    remove_patches()


def _patch_duckdb() -> None:
    if _state["on"]:
        from clew.capture.queries.hooks import patch_duckdb

        patch_duckdb()


def _patch_marimo() -> None:
    if _state["on"]:
        from clew.capture.queries.hooks import patch_marimo

        patch_marimo()


def _patch_polars() -> None:
    if _state["on"]:
        from clew.capture.polars.hooks import install

        install()


def _patch_pandas() -> None:
    if not _state["on"]:
        return
    from clew.capture.frames.catalogue import install
    from clew.capture.frames.lineage_accessor import register_accessor

    install()
    register_accessor()
