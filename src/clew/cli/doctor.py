"""`clew doctor`: check the installation and the data directory."""

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
from clew.cli.figures import format_bytes
from clew.cli.options import json_option, lake_option
from clew.cli.screen import print_json, stdout_console
from clew.errors import ClewError
from clew.home import DataDir

CheckState = Literal["ok", "warning", "error"]

_CHECK_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}
# Modules of each extra, and the packages that provide them.
_EXTRA_MODULES = {
    "spark": {"pyspark": "pyspark", "deltalake": "deltalake", "pyarrow": "pyarrow"},
    "s3": {"obstore": "obstore"},
    "server": {"starlette": "starlette", "uvicorn": "uvicorn"},
    "mcp": {"mcp": "mcp"},
    "notebook": {"marimo": "marimo", "pandas": "pandas"},
    "validate": {"jsonschema_rs": "jsonschema-rs"},
    "metrics": {"prometheus_client": "prometheus-client"},
}
_MIN_FREE_BYTES = 1 << 30


class CheckResult(Struct, frozen=True):
    """Result of one check. A warning affects only optional features."""

    name: str
    state: CheckState
    detail: str
    hint: str | None = None


@click.command("doctor")
@json_option
@lake_option
def doctor_command(as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Check the installation: extras, Java, the data directory, its lake and its index.

    Starts neither Spark nor a server, and changes nothing. Exits with 1 if a check fails.
    """
    checks = list(run_checks(home))
    if as_json:
        print_json(checks)
    else:
        stdout_console().print(_check_table(checks))
    sys.exit(1 if any(check.state == "error" for check in checks) else 0)


def run_checks(home: DataDir) -> Iterator[CheckResult]:
    """Run all checks, in order of dependency."""
    yield CheckResult("clew", "ok", f"{__version__} at {Path(__file__).parent.parent}")
    yield CheckResult("python", "ok", f"{platform.python_version()} at {sys.executable}")
    for extra, modules in _EXTRA_MODULES.items():
        yield _check_extra(extra, modules)
    yield _check_java()
    yield _check_web_ui()
    yield _check_home(home)
    yield _run_check("lake", lambda: _check_lake(home))
    yield _run_check("index", lambda: _check_index(home))


def _check_extra(extra: str, modules: dict[str, str]) -> CheckResult:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        return CheckResult(extra, "warning", f"{', '.join(missing)} not installed", f"pip install 'clew[{extra}]'")
    return CheckResult(extra, "ok", ", ".join(f"{package} {_package_version(package)}" for package in modules.values()))


def _package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(unknown version)"


def _check_java() -> CheckResult:
    from clew.pipeline.java import find_java

    try:
        java = find_java()
    except ClewError as error:
        return CheckResult(
            "java", "error" if importlib.util.find_spec("pyspark") else "warning", error.message, error.hint
        )
    return CheckResult("java", "ok", f"{java.version} at {java.home}")


def _check_web_ui() -> CheckResult:
    from clew.api.assets import STATIC

    if (STATIC / "index.html").is_file():
        return CheckResult("web UI", "ok", f"built, at {STATIC}")
    return CheckResult("web UI", "warning", "not built", "In a checkout, run `make web`; wheels include it.")


def _check_home(home: DataDir) -> CheckResult:
    if not home.root.exists():
        return CheckResult("home", "warning", f"{home.root} does not exist yet", "Created on the first run.")
    try:
        home.create()
    except ClewError as error:
        return CheckResult("home", "error", error.message, error.hint)
    free = shutil.disk_usage(home.root).free
    if free < _MIN_FREE_BYTES:
        return CheckResult("home", "error", f"{home.root}: only {format_bytes(free)} free", "Free disk space.")
    return CheckResult("home", "ok", f"{home.root}, {format_bytes(free)} free")


def _run_check(name: str, check: Callable[[], CheckResult]) -> CheckResult:
    try:
        return check()
    except ClewError as error:
        return CheckResult(name, "error", error.message, error.hint)


def _check_lake(home: DataDir) -> CheckResult:
    from clew.lake.format import read_manifest

    manifest = read_manifest(home.lake)
    if manifest is None:
        return CheckResult("lake", "warning", f"none at {home.lake} yet", "Run `clew pipeline run`.")
    return CheckResult(
        "lake", "ok", f"format {manifest.format_version} at {home.lake}, written by clew {manifest.written_by}"
    )


def _check_index(home: DataDir) -> CheckResult:
    from clew.index.reader import IndexReader
    from clew.index.store import MissingIndexError

    location = home.index
    try:
        with IndexReader(location) as index:
            indexed_at = index.meta("indexed_at") or "never"
    except MissingIndexError:
        return CheckResult("index", "warning", f"none at {location} yet", "Run `clew pipeline run`.")
    description = format_bytes(location.stat().st_size) if isinstance(location, Path) else str(location)
    return CheckResult("index", "ok", f"{description}, last written {indexed_at}")


def _check_table(checks: list[CheckResult]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for check in checks:
        detail = check.detail if check.hint is None else f"{check.detail}\n{check.hint}"
        table.add_row(Text(check.state, style=_CHECK_STYLES[check.state]), check.name, detail)
    return table
