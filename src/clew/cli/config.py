"""`clew config`: the settings that count here, and who has said so."""

from __future__ import annotations

import click
from msgspec import Struct
from rich.table import Table

from clew.cli.options import json_option
from clew.cli.screen import data, print_json
from clew.home import Home
from clew.settings import SETTINGS, Chosen, chosen


class Shown(Struct, frozen=True):
    """A setting, its value, and where it was said."""

    name: str
    value: str | None
    origin: str
    variable: str


@click.command("config")
@click.option("--home", default=None, help="As other commands take it.")
@click.option("--lake", default=None, metavar="PATH|URL", help="As other commands take it.")
@click.option("--index", default=None, metavar="URL", help="As other commands take it.")
@click.option("--master", default=None, help="As other commands take it.")
@json_option
def command(*, as_json: bool, **flags: str | None) -> None:
    """Show the settings that count here, and where each was said.

    A flag goes before the environment, the environment before clew.toml, and that before the default.
    """
    shown = settings(flags)
    if as_json:
        print_json(shown)
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("setting", "value", "said by", "variable"):
        table.add_column(title, overflow="fold")
    for one in shown:
        table.add_row(one.name, one.value or "", one.origin, one.variable)
    data().print(table)


def settings(flags: dict[str, str | None]) -> list[Shown]:
    """All settings, with the places that home, lake and index come to."""
    found = {name: chosen(name, flags.get(name)) for name in SETTINGS}
    home = Home.find(flags["home"], flags["lake"], flags["index"])
    found["home"] = Chosen(str(home.root), found["home"].origin)
    found["lake"] = Chosen(str(home.lake), found["lake"].origin)
    found["index"] = Chosen(str(home.index), found["index"].origin)
    return [Shown(name, one.value, one.origin, SETTINGS[name].variable) for name, one in found.items()]
