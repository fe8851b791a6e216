"""Shell completion of sessions, datasets and columns, from the index; empty without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from clew.errors import ClewError
from clew.home import DataDir
from clew.index.reader import IndexReader

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
    from clew.query.names import UnknownNameError, resolve_dataset
    from clew.query.schemas import column_names

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
    names = (row["name"].rstrip("/").rsplit("/", 1)[-1] for row in index.datasets())
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
