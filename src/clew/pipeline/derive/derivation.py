"""Catalog of event tables and lazily built derived tables."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame

Tables = Mapping[str, DataFrame]
Transform = Callable[[Tables], DataFrame]


class TableCatalog(Tables):
    """DataFrames by name, built on first use. Tables in `shared` are cached until the end."""

    def __init__(
        self, tables: Tables, transforms: Mapping[str, Transform], shared: frozenset[str] = frozenset()
    ) -> None:
        self._tables = dict(tables)
        self._transforms = transforms
        self._shared = shared
        self._cached = [table.persist() for name, table in tables.items() if name in shared]

    def __getitem__(self, name: str) -> DataFrame:
        """Return an event table, or build a derived table."""
        if name not in self._tables:
            self._tables[name] = self._build(name)
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all tables."""
        return iter({**self._tables, **self._transforms})

    def __len__(self) -> int:
        return len({**self._tables, **self._transforms})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for table in self._cached:
            table.unpersist()
        self._tables.clear()
        self._cached.clear()
        # Py4J objects are in reference cycles: until they are collected, the JVM holds their plans (40 MB each time).
        gc.collect()

    def _build(self, name: str) -> DataFrame:
        table = self._transforms[name](self)
        if name in self._shared:
            self._cached.append(table.persist())
        return table
