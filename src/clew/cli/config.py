"""`clew config`: show effective settings and their source."""

from __future__ import annotations

import click
from msgspec import Struct
from rich.table import Table

from clew.cli.options import json_option
from clew.cli.screen import print_json, stdout_console
from clew.home import DataDir
from clew.settings import SETTINGS, ResolvedSetting, resolve_setting


class SettingRow(Struct, frozen=True):
    """A setting with its value and source."""

    name: str
    value: str | None
    source: str
    variable: str


@click.command("config")
@click.option("--home", default=None, help="Same as for other commands.")
@click.option("--lake", default=None, metavar="PATH|URL", help="Same as for other commands.")
@click.option("--index", default=None, metavar="URL", help="Same as for other commands.")
@click.option("--master", default=None, help="Same as for other commands.")
@json_option
def config_command(*, as_json: bool, **flags: str | None) -> None:
    """Show effective settings and their source.

    Precedence: flag, environment variable, clew.toml, default.
    """
    rows = effective_settings(flags)
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("setting", "value", "source", "variable"):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(row.name, row.value or "", row.source, row.variable)
    stdout_console().print(table)


def effective_settings(flags: dict[str, str | None]) -> list[SettingRow]:
    """Return all settings, with the resolved locations of home, lake and index."""
    resolved = {name: resolve_setting(name, flags.get(name)) for name in SETTINGS}
    home = DataDir.find(flags["home"], flags["lake"], flags["index"])
    resolved["home"] = ResolvedSetting(str(home.root), resolved["home"].source)
    resolved["lake"] = ResolvedSetting(str(home.lake), resolved["lake"].source)
    resolved["index"] = ResolvedSetting(str(home.index), resolved["index"].source)
    return [
        SettingRow(name, setting.value, setting.source, SETTINGS[name].env_var) for name, setting in resolved.items()
    ]
