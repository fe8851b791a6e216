"""Names that a shell completes, from the index of the home that is meant. Without one there is nothing to say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from clew.errors import ClewError
from clew.home import Home
from clew.index.reader import IndexReader

_MOST = 50


def complete_session(ctx: click.Context, _: click.Parameter, text: str) -> list[str]:
    """The ids of notebook runs, the newest first."""
    with _index(ctx) as index:
        sessions = [] if index is None else index.sessions(_MOST)
        return [row["session_id"] for row in sessions if row["session_id"].startswith(text)]


def complete_dataset(ctx: click.Context, _: click.Parameter, text: str) -> list[str]:
    """The last parts of datasets' names, the last touched first."""
    with _index(ctx) as index:
        return [] if index is None else _datasets(index, text)


def complete_column(ctx: click.Context, _: click.Parameter, text: str) -> list[str]:
    """Datasets, and behind the name of one its columns."""
    from clew.query.names import UnknownNameError, find_dataset
    from clew.query.schemas import column_names

    with _index(ctx) as index:
        if index is None:
            return []
        dataset, _dot, begun = text.rpartition(".")
        try:
            columns = column_names(index, find_dataset(index, dataset)) if dataset else []
        except UnknownNameError:
            columns = []
        named = [f"{dataset}.{column}" for column in columns if column.startswith(begun)]
        return named or [f"{name}." for name in _datasets(index, text)]


def _datasets(index: IndexReader, text: str) -> list[str]:
    names = (row["name"].rstrip("/").rsplit("/", 1)[-1] for row in index.datasets())
    return list(dict.fromkeys(name for name in names if name.startswith(text)))[:_MOST]


@contextmanager
def _index(ctx: click.Context) -> Iterator[IndexReader | None]:
    try:
        index = IndexReader(Home.find(ctx.params.get("home"), index=ctx.params.get("index")).index)
    except ClewError:
        yield None
        return
    with index:
        yield index
