"""Rows whose values are had by name, or by place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from psycopg import Cursor


class NamedRow(tuple[Any, ...]):
    """A tuple that knows the names of its values."""

    __slots__ = ()
    places: Mapping[str, int]

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self.places[key] if isinstance(key, str) else key)

    def keys(self) -> list[str]:
        """The names of the values."""
        return list(self.places)


def named_rows(cursor: Cursor[Any]) -> Callable[[Sequence[Any]], NamedRow]:
    """How psycopg makes the rows of a query."""
    names = [column.name for column in cursor.description or ()]
    return type("Row", (NamedRow,), {"places": {name: place for place, name in enumerate(names)}})
