"""`clew keys`: manage API keys."""

from __future__ import annotations

import click
from rich.table import Table

from clew.cli.options import home_option, json_option
from clew.cli.screen import print_json, stderr_console, stdout_console
from clew.home import DataDir
from clew.serving.grants import Scope
from clew.serving.keys import KeyFile


@click.group("keys")
def keys_group() -> None:
    """Manage API keys."""


@keys_group.command("add")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    default=(Scope.WRITE.value,),
    show_default=True,
    help="Scope: write (send events), read (query), admin; may be repeated.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="PREFIX",
    help="Limit the key to namespaces with this prefix; may be repeated.",
)
@json_option
@home_option
def keys_add(name: str, scopes: tuple[str, ...], namespaces: tuple[str, ...], as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Create a key and print it. Only a hash of it is stored."""
    key = KeyFile(home.create().keys).add(name, [Scope(scope) for scope in scopes], namespaces)
    stderr_console().print("Save this key; it will not be shown again.")
    if as_json:
        print_json({"name": name, "key": key, "scopes": scopes, "namespaces": namespaces})
    else:
        stdout_console().print(key, soft_wrap=True)


@keys_group.command("list")
@json_option
@home_option
def keys_list(as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """List keys with their scopes and namespaces."""
    keys = KeyFile(home.keys).list_keys()
    if as_json:
        fields = ("name", "id", "scopes", "namespaces", "added_at")
        print_json([{name: getattr(key, name) for name in fields} for key in keys])
        return
    table = Table("name", "id", "scopes", "namespaces", "added", box=None, pad_edge=False)
    for key in keys:
        table.add_row(key.name, key.id, ", ".join(key.scopes), ", ".join(key.namespaces) or "all", key.added_at)
    stdout_console().print(table)


@keys_group.command("revoke")
@click.argument("name")
@json_option
@home_option
def keys_revoke(name: str, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Revoke a key."""
    KeyFile(home.keys).revoke(name)
    if as_json:
        print_json({"revoked": name})
    else:
        stderr_console().print(f"Revoked key {name!r}.")
