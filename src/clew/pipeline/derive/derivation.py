"""Event tables, and what follows from them: a step may ask for what another step makes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame

Tables = Mapping[str, DataFrame]
Step = Callable[[Tables], DataFrame]


class Derivation(Tables):
    """Tables by name. What `shared` names is kept from its first use to the end, so that it is computed once."""

    def __init__(self, tables: Tables, steps: Mapping[str, Step], shared: frozenset[str] = frozenset()) -> None:
        self._tables = dict(tables)
        self._steps = steps
        self._shared = shared
        self._kept = [table.persist() for name, table in tables.items() if name in shared]

    def __getitem__(self, name: str) -> DataFrame:
        """An event table, or what its step makes of the others."""
        if name not in self._tables:
            self._tables[name] = self._derived(name)
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        """The names of all tables."""
        return iter({**self._tables, **self._steps})

    def __len__(self) -> int:
        return len({**self._tables, **self._steps})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for table in self._kept:
            table.unpersist()
        self._tables.clear()
        self._kept.clear()
        # Py4J's objects stand in cycles. Until Python collects them, the JVM holds their plans: 40 MB each time.
        gc.collect()

    def _derived(self, name: str) -> DataFrame:
        table = self._steps[name](self)
        if name in self._shared:
            self._kept.append(table.persist())
        return table
