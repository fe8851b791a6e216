"""`clew doctor`: whether all is there that clew needs, and what to do where it is not."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct
from rich.table import Table
from rich.text import Text

from clew import __version__
from clew.cli.figures import filesize
from clew.cli.options import json_option, lake_option
from clew.cli.screen import data, print_json
from clew.errors import ClewError
from clew.home import Home

State = Literal["ok", "note", "fault"]

_STYLES = {"ok": "green", "note": "yellow", "fault": "red"}
# The modules by which an extra is seen to be there, with the packages that bring them.
_EXTRAS = {
    "spark": {"pyspark": "pyspark", "deltalake": "deltalake", "pyarrow": "pyarrow"},
    "s3": {"obstore": "obstore"},
    "server": {"starlette": "starlette", "uvicorn": "uvicorn"},
    "mcp": {"mcp": "mcp"},
    "notebook": {"marimo": "marimo", "pandas": "pandas"},
    "validate": {"jsonschema_rs": "jsonschema-rs"},
    "metrics": {"prometheus_client": "prometheus-client"},
}
_LITTLE_DISK = 1 << 30


class Check(Struct, frozen=True):
    """One thing that was looked at. A note keeps nothing from working that was not asked for."""

    name: str
    state: State
    detail: str
    hint: str | None = None


@click.command("doctor")
@json_option
@lake_option
def command(as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Look whether all is there that clew needs: extras, Java, the home, its lake and its index.

    Starts neither Spark nor a server, and changes nothing. Ends with 1 if something is broken.
    """
    checks = list(examined(home))
    if as_json:
        print_json(checks)
    else:
        data().print(_table(checks))
    sys.exit(1 if any(check.state == "fault" for check in checks) else 0)


def examined(home: Home) -> Iterator[Check]:
    """All checks, in the order in which one thing needs another."""
    yield Check("clew", "ok", f"{__version__} at {Path(__file__).parent.parent}")
    yield Check("python", "ok", f"{platform.python_version()} at {sys.executable}")
    for extra, modules in _EXTRAS.items():
        yield _extra(extra, modules)
    yield _java()
    yield _page()
    yield _home(home)
    yield _looked_at("lake", lambda: _lake(home))
    yield _looked_at("index", lambda: _index(home))


def _extra(extra: str, modules: dict[str, str]) -> Check:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        return Check(extra, "note", f"{', '.join(missing)} not installed", f"pip install 'clew[{extra}]'")
    return Check(extra, "ok", ", ".join(f"{package} {_version(package)}" for package in modules.values()))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


def _java() -> Check:
    from clew.pipeline.java import find_java

    try:
        found = find_java()
    except ClewError as fault:
        return Check("java", "fault" if importlib.util.find_spec("pyspark") else "note", fault.message, fault.hint)
    return Check("java", "ok", f"{found.version} at {found.home}")


def _page() -> Check:
    from clew.api.assets import STATIC

    if (STATIC / "index.html").is_file():
        return Check("page", "ok", f"built, at {STATIC}")
    return Check("page", "note", "not built", "In a checkout, run `make web`; wheels bring it.")


def _home(home: Home) -> Check:
    if not home.root.exists():
        return Check("home", "note", f"{home.root} is not there yet", "It comes to be with the first run.")
    try:
        home.create()
    except ClewError as fault:
        return Check("home", "fault", fault.message, fault.hint)
    free = shutil.disk_usage(home.root).free
    if free < _LITTLE_DISK:
        return Check("home", "fault", f"{home.root}: only {filesize(free)} are free on its disk", "Make room.")
    return Check("home", "ok", f"{home.root}, {filesize(free)} free")


def _looked_at(name: str, look: Callable[[], Check]) -> Check:
    try:
        return look()
    except ClewError as fault:
        return Check(name, "fault", fault.message, fault.hint)


def _lake(home: Home) -> Check:
    from clew.lake.format import read_marker

    marker = read_marker(home.lake)
    if marker is None:
        return Check("lake", "note", f"none at {home.lake} yet", "Run `clew pipeline run`.")
    return Check("lake", "ok", f"format {marker.format} at {home.lake}, written by clew {marker.written_by}")


def _index(home: Home) -> Check:
    from clew.index.reader import IndexReader
    from clew.index.store import MissingIndexError

    place = home.index
    try:
        with IndexReader(place) as index:
            last = index.meta("indexed_at") or "never"
    except MissingIndexError:
        return Check("index", "note", f"none at {place} yet", "Run `clew pipeline run`.")
    what = filesize(place.stat().st_size) if isinstance(place, Path) else str(place)
    return Check("index", "ok", f"{what}, last written {last}")


def _table(checks: list[Check]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for check in checks:
        told = check.detail if check.hint is None else f"{check.detail}\n{check.hint}"
        table.add_row(Text(check.state, style=_STYLES[check.state]), check.name, told)
    return table
