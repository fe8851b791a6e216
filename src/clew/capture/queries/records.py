"""Records of queries: the text is kept, and taken apart when someone wants to know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clew.capture.datasets import FileDataset, located_at
from clew.capture.flags import INFERRED, TRANSFORMATION
from clew.capture.losses import count_loss
from clew.capture.provenance import Provenance, composed, union
from clew.capture.queries.reading import FILE, Reading, Uses, read_query
from clew.capture.records import Kind, Listed, Record
from clew.capture.versions import FrameVersion
from clew.capture.written import outside, written_to

if TYPE_CHECKING:
    from collections.abc import Hashable


class Query:
    """A query as it was run: its text, and the versions that its tables had then."""

    def __init__(self, text: str, tables: dict[str, FrameVersion], database: str = ":memory:") -> None:
        self.text = text
        # DuckDB and sqlglot do not tell capital letters from small ones.
        self.tables = {name.lower(): version for name, version in tables.items()}
        self._database = database

    def within(self, text: str) -> Query:
        """A query inside this one, over the same tables."""
        return Query(text, dict(self.tables), self._database)

    def table_dataset(self, table: str) -> FileDataset:
        """A table of the database that the query runs in."""
        return FileDataset("duckdb", f"{self._database}.{table.lower()}")

    def kind(self) -> Kind:
        """The family of the operation, by its words."""
        words = self.text.lower()
        if re.search(r"\bgroup\s+by\b", words):
            return "aggregation"
        return "join" if re.search(r"\bjoin\b", words) else "selection"

    @cached_property
    def reading(self) -> Reading | None:
        """What the text says; None if it cannot be taken apart."""
        columns = {name: [str(label) for label in version.columns] for name, version in self.tables.items()}
        try:
            return read_query(self.text, columns)
        except ImportError:
            return None
        except Exception as error:  # noqa: BLE001 - a dialect has more words than any parser
            count_loss("query", error)
            return None

    def fields(self, labels: list[Hashable]) -> dict[Hashable, Provenance]:
        """The provenance of each column of the result."""
        if self.reading is None:
            return dict.fromkeys(labels, self._unknown)
        columns = self.reading.columns
        if len(columns) == len(labels) and "*" not in columns:
            # What has no name in the text has one of DuckDB's own in the result.
            return {label: self._of(uses, label) for label, uses in zip(labels, columns.values(), strict=True)}
        by_name = {name.lower(): uses for name, uses in columns.items()}
        star = by_name.get("*")
        found = {label: by_name.get(str(label).lower(), star) for label in labels}
        return {label: self._unknown if uses is None else self._of(uses, label) for label, uses in found.items()}

    @property
    def _unknown(self) -> Provenance:
        return self.guessed(TRANSFORMATION | INFERRED)

    def guessed(self, flags: int) -> Provenance:
        """Every column of every table, used in a way that is not known."""
        return composed(union(*[version.fields(None) for version in self.tables.values()]), flags)

    @cached_property
    def rows(self) -> Provenance:
        """What holds for the whole result."""
        return self._of(self.reading.rows, None) if self.reading is not None else {}

    def sources(self) -> tuple[FrameVersion, ...]:
        """The versions of the tables that are read; of a text that tells nothing, of all that it may mean."""
        if self.reading is None:
            return tuple(self.tables.values())
        return tuple(self._source(table) for table in sorted(self.reading.tables))

    def _of(self, uses: Uses, label: Hashable) -> Provenance:
        found = []
        for (table, column), flags in uses.items():
            version = self._source(table)
            wanted = label if column == "*" else _spelled(version, column)
            found.append(composed(version.field(wanted), flags))
        return union(*found)

    def _source(self, table: str) -> FrameVersion:
        version = self.tables.get(table.lower())
        if version is None:
            if table.startswith(FILE):
                dataset = located_at(table.removeprefix(FILE)) or FileDataset("file", table)
            else:
                dataset = self.table_dataset(table)
            version = self.tables[table.lower()] = written_to(dataset) or outside(dataset)
        return version


def _spelled(version: FrameVersion, column: str) -> Hashable:
    """A column's label as the frame spells it."""
    return next((label for label in version.columns if str(label).lower() == column.lower()), column)


class QueryEdges(Listed):
    """Edges that the text of a query gives when they are first asked for."""

    query: Query
    labels: list[Hashable]
    found: dict[Hashable, Provenance] | None = None

    @property  # type: ignore[misc]
    def by_label(self) -> dict[Hashable, Provenance]:  # type: ignore[override]
        """The provenance of every column."""
        if self.found is None:
            self.found = self.query.fields(self.labels)
        return self.found


class QueryRecord(Record, kw_only=True):
    """The record of a query: what chose its rows is known when its text is."""

    query: Query

    @classmethod
    def of(cls, method: str, query: Query, output: FrameVersion) -> QueryRecord:
        """The record of a query that made `output`."""
        return cls(method, query.kind(), output, QueryEdges({}, query, list(output.columns)), query=query)

    @property  # type: ignore[misc]
    def parents(self) -> tuple[FrameVersion, ...]:
        """The tables that the query reads."""
        return self.query.sources()

    @parents.setter
    def parents(self, _: tuple[FrameVersion, ...]) -> None:
        """Are known from the text alone."""

    @property  # type: ignore[misc]
    def rows(self) -> Provenance:
        """What holds for the whole output."""
        return self.query.rows

    @rows.setter
    def rows(self, _: Provenance) -> None:
        """Is known from the text alone."""


def tables_named_in(text: str, namespaces: Mapping[str, Any]) -> dict[str, FrameVersion]:
    """The frames that a query may read by the names of variables, as they are now."""
    from clew.capture.foreign import is_frame, version_of_frame

    named = {word: namespaces[word] for word in set(re.findall(r"\w+", text)) if word in namespaces}
    return {name: version_of_frame(value) for name, value in named.items() if is_frame(value)}
