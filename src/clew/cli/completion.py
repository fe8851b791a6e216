"""Shell completion: the script, and completion of sessions, datasets and columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.index.queries.reader import IndexReader

_MAX_COMPLETIONS = 50


def complete_session(ctx: click.Context, _: click.Parameter, text: str) -> list[str]:
    """Complete ids of notebook runs, newest first."""
    with _open_index(ctx) as index:
        sessions = [] if index is None else index.sessions(_MAX_COMPLETIONS)
        return [row["session_id"] for row in sessions if row["session_id"].startswith(text)]


def complete_dataset(ctx: click.Context, _: click.Parameter, text: str) -> list[str]:
    """Complete the last segment of dataset names, most recently updated first."""
    with _open_index(ctx) as index:
        return [] if index is None else _dataset_names(index, text)


def complete_column(ctx: click.Context, _: click.Parameter, text: str) -> list[str]:
    """Complete dataset names, and columns after a dataset name."""
    from clew.query.names import UnknownNameError, column_names, resolve_dataset

    with _open_index(ctx) as index:
        if index is None:
            return []
        dataset, _dot, prefix = text.rpartition(".")
        try:
            columns = column_names(index, resolve_dataset(index, dataset)) if dataset else []
        except UnknownNameError:
            columns = []
        matches = [f"{dataset}.{column}" for column in columns if column.startswith(prefix)]
        return matches or [f"{name}." for name in _dataset_names(index, text)]


def _dataset_names(index: IndexReader, text: str) -> list[str]:
    from clew.query.names import last_segment

    names = (last_segment(name) for _, name in index.recent_names("dataset"))
    return list(dict.fromkeys(name for name in names if name.startswith(text)))[:_MAX_COMPLETIONS]


@contextmanager
def _open_index(ctx: click.Context) -> Iterator[IndexReader | None]:
    try:
        index = IndexReader(DataDir.find(ctx.params.get("home"), index=ctx.params.get("index")).index)
    except ClewError:
        yield None
        return
    with index:
        yield index


_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print a shell completion script for commands, options, sessions, datasets and columns.

    \b
    clew completion bash >> ~/.bashrc
    clew completion zsh >> ~/.zshrc
    clew completion fish > ~/.config/fish/completions/clew.fish
    """  # noqa: D301 - click looks for the character itself
    # Not `BashComplete.source()`: it starts bash to check its version.
    script = _SHELLS[shell](ctx.find_root().command, {}, "clew", "_CLEW_COMPLETE")
    click.echo(script.source_template % script.source_vars())
