"""`clew keys`: who may send events, and who may ask."""

from __future__ import annotations

import click
from rich.table import Table

from clew.cli.options import home_option, json_option
from clew.cli.screen import data, print_json, talk
from clew.home import Home
from clew.serving.grants import Scope
from clew.serving.keys import KeyFile


@click.group("keys")
def command() -> None:
    """Say who may send events, and who may ask."""


@command.command("add")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    default=(Scope.WRITE.value,),
    show_default=True,
    help="What it is for: to send, to ask, or all; may be repeated.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="PREFIX",
    help="Only for jobs and datasets whose namespace begins so; may be repeated.",
)
@json_option
@home_option
def add(name: str, scopes: tuple[str, ...], namespaces: tuple[str, ...], as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Make a key, and print it, this once: only a hash of it is kept."""
    key = KeyFile(home.create().keys).add(name, [Scope(scope) for scope in scopes], namespaces)
    talk().print("Keep it well: it cannot be shown again.")
    if as_json:
        print_json({"name": name, "key": key, "scopes": scopes, "namespaces": namespaces})
    else:
        data().print(key, soft_wrap=True)


@command.command("list")
@json_option
@home_option
def listed(as_json: bool, home: Home) -> None:  # noqa: FBT001
    """List the keys: their names and what they are for."""
    keys = KeyFile(home.keys).listed()
    if as_json:
        told = ("name", "id", "scopes", "namespaces", "added_at")
        print_json([{name: getattr(key, name) for name in told} for key in keys])
        return
    table = Table("name", "id", "scopes", "namespaces", "added", box=None, pad_edge=False)
    for key in keys:
        table.add_row(key.name, key.id, ", ".join(key.scopes), ", ".join(key.namespaces) or "all", key.added_at)
    data().print(table)


@command.command("revoke")
@click.argument("name")
@json_option
@home_option
def revoke(name: str, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Take a key back: from now on it lets nobody in."""
    KeyFile(home.keys).revoke(name)
    if as_json:
        print_json({"revoked": name})
    else:
        talk().print(f"The key {name!r} lets nobody in any more.")
