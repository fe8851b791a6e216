"""Rows with values by name or position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from psycopg import Cursor


class NamedRow(tuple[Any, ...]):
    """A tuple with column names."""

    __slots__ = ()
    positions: Mapping[str, int]

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self.positions[key] if isinstance(key, str) else key)

    def keys(self) -> list[str]:
        """Return the column names."""
        return list(self.positions)


def named_rows(cursor: Cursor[Any]) -> Callable[[Sequence[Any]], NamedRow]:
    """Row factory of psycopg for `NamedRow`."""
    names = [column.name for column in cursor.description or ()]
    return type("Row", (NamedRow,), {"positions": {name: position for position, name in enumerate(names)}})
