"""Operation records of queries; the text is parsed on demand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clew.capture.datasets import ExternalDataset, dataset_at
from clew.capture.flags import INFERRED, TRANSFORMATION
from clew.capture.losses import record_error
from clew.capture.provenance import Provenance, compose, union
from clew.capture.queries.reading import FILE_PREFIX, Dependencies, QueryLineage, parse_query
from clew.capture.records import ExplicitEdges, OperationRecord, OperationType
from clew.capture.versions import FrameVersion
from clew.capture.written import external_version, last_written

if TYPE_CHECKING:
    from collections.abc import Hashable


class Query:
    """A query that was run: its text and the versions of its tables at that time."""

    def __init__(self, text: str, tables: dict[str, FrameVersion], database: str = ":memory:") -> None:
        self.text = text
        # Identifiers are case-insensitive in DuckDB and sqlglot.
        self.tables = {name.lower(): version for name, version in tables.items()}
        self._database = database

    def subquery(self, text: str) -> Query:
        """Create a query for a part of the text, over the same tables."""
        return Query(text, dict(self.tables), self._database)

    def table_dataset(self, table: str) -> ExternalDataset:
        """Return the dataset of a table in the query's database."""
        return ExternalDataset("duckdb", f"{self._database}.{table.lower()}")

    def kind(self) -> OperationType:
        """Return the operation type, from keywords of the text."""
        words = self.text.lower()
        if re.search(r"\bgroup\s+by\b", words):
            return "aggregation"
        return "join" if re.search(r"\bjoin\b", words) else "selection"

    @cached_property
    def lineage(self) -> QueryLineage | None:
        """Parsed lineage, or None if the text cannot be parsed."""
        columns = {name: [str(label) for label in version.columns] for name, version in self.tables.items()}
        try:
            return parse_query(self.text, columns)
        except ImportError:
            return None
        except Exception as error:  # noqa: BLE001 - the parser does not cover the whole dialect
            record_error("query", error)
            return None

    def fields(self, labels: list[Hashable]) -> dict[Hashable, Provenance]:
        """Return the provenance of each column of the result."""
        if self.lineage is None:
            return dict.fromkeys(labels, self._inferred)
        columns = self.lineage.columns
        if len(columns) == len(labels) and "*" not in columns:
            # By position: DuckDB names the unnamed columns of the result.
            return {
                label: self._to_provenance(uses, label) for label, uses in zip(labels, columns.values(), strict=True)
            }
        by_name = {name.lower(): uses for name, uses in columns.items()}
        star = by_name.get("*")
        by_label = {label: by_name.get(str(label).lower(), star) for label in labels}
        return {
            label: self._inferred if uses is None else self._to_provenance(uses, label)
            for label, uses in by_label.items()
        }

    @property
    def _inferred(self) -> Provenance:
        return self.opaque_provenance(TRANSFORMATION | INFERRED)

    def opaque_provenance(self, flags: int) -> Provenance:
        """Return every column of every table with the flags of an unknown use."""
        return compose(union(*[version.fields(None) for version in self.tables.values()]), flags)

    @cached_property
    def rows(self) -> Provenance:
        """Dependencies of the whole result."""
        return self._to_provenance(self.lineage.rows, None) if self.lineage is not None else {}

    def sources(self) -> tuple[FrameVersion, ...]:
        """Return the versions of the tables read; of all candidate tables if the text cannot be parsed."""
        if self.lineage is None:
            return tuple(self.tables.values())
        return tuple(self._source(table) for table in sorted(self.lineage.tables))

    def _to_provenance(self, dependencies: Dependencies, label: Hashable) -> Provenance:
        sources = []
        for (table, column), flags in dependencies.items():
            version = self._source(table)
            source_label = label if column == "*" else _match_case(version, column)
            sources.append(compose(version.field(source_label), flags))
        return union(*sources)

    def _source(self, table: str) -> FrameVersion:
        version = self.tables.get(table.lower())
        if version is None:
            if table.startswith(FILE_PREFIX):
                dataset = dataset_at(table.removeprefix(FILE_PREFIX)) or ExternalDataset("file", table)
            else:
                dataset = self.table_dataset(table)
            version = self.tables[table.lower()] = last_written(dataset) or external_version(dataset)
        return version


def _match_case(version: FrameVersion, column: str) -> Hashable:
    """Return a column's label with the case used by the frame."""
    return next((label for label in version.columns if str(label).lower() == column.lower()), column)


class QueryEdges(ExplicitEdges):
    """Edges computed from the text of a query on first access."""

    query: Query
    labels: list[Hashable]
    cached: dict[Hashable, Provenance] | None = None

    @property  # type: ignore[misc]
    def by_label(self) -> dict[Hashable, Provenance]:  # type: ignore[override]
        """The provenance of every column."""
        if self.cached is None:
            self.cached = self.query.fields(self.labels)
        return self.cached


class QueryRecord(OperationRecord, kw_only=True):
    """Record of a query; parents and row dependencies come from its parsed text."""

    query: Query

    @classmethod
    def of(cls, method: str, query: Query, output: FrameVersion) -> QueryRecord:
        """Create the record of a query that produced `output`."""
        return cls(method, query.kind(), output, QueryEdges({}, query, list(output.columns)), query=query)

    @property  # type: ignore[misc]
    def parents(self) -> tuple[FrameVersion, ...]:
        """Tables that the query reads."""
        return self.query.sources()

    @parents.setter
    def parents(self, _: tuple[FrameVersion, ...]) -> None:
        """Ignore assignments: the parents come from the text."""

    @property  # type: ignore[misc]
    def rows(self) -> Provenance:
        """Dependencies of the whole output."""
        return self.query.rows

    @rows.setter
    def rows(self, _: Provenance) -> None:
        """Ignore assignments: the dependencies come from the text."""


def referenced_frames(text: str, namespaces: Mapping[str, Any]) -> dict[str, FrameVersion]:
    """Return the current versions of the frames that the text mentions by variable name."""
    from clew.capture.foreign import is_frame, version_of_frame

    named = {word: namespaces[word] for word in set(re.findall(r"\w+", text)) if word in namespaces}
    return {name: version_of_frame(value) for name, value in named.items() if is_frame(value)}
