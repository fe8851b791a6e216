"""DuckDB queries: SQL, relation methods as SQL, files read and written."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clew.capture.backends.base import is_frame, version_of_frame
from clew.capture.backends.sql_lineage import FILE_PREFIX, Dependencies, QueryLineage, parse_query
from clew.capture.diagnostics import record_error
from clew.capture.lineage.datasets import ExternalDataset, dataset_at
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.operations import (
    IdentityEdges,
    LazyEdges,
    OperationRecord,
    OperationType,
    external_version,
    last_written,
)
from clew.capture.lineage.provenance import Provenance, compose, union
from clew.capture.lineage.transformations import INFERRED, OPAQUE, TRANSFORMATION

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from clew.capture.lineage.frame_version import FrameVersion


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


class QueryRecord(OperationRecord, kw_only=True):
    """Record of a query; parents and row dependencies come from its parsed text."""

    query: Query

    @classmethod
    def of(cls, method: str, query: Query, output: FrameVersion) -> QueryRecord:
        """Create the record of a query that produced `output`."""
        return cls(
            method, query.kind(), output, LazyEdges.from_callable(query.fields, list(output.columns)), query=query
        )

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
    named = {word: namespaces[word] for word in set(re.findall(r"\w+", text)) if word in namespaces}
    return {name: version_of_frame(value) for name, value in named.items() if is_frame(value)}


_ROW_SUBSETS = frozenset(["head", "limit", "offset", "sample", "set_alias"])
_JOINS = frozenset(["inner", "left", "right", "outer", "full"])


def relation_record(
    name: str, relation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: FrameVersion
) -> OperationRecord:
    """Return the record of a relation method: exact if it translates to SQL, else opaque from all columns."""
    source = version_of_frame(relation)
    if name in _ROW_SUBSETS:
        return OperationRecord(name, "selection", output, IdentityEdges(source), {}, (source,))
    others = {value.alias: version_of_frame(value) for value in (*args, *kwargs.values()) if _is_relation(value)}
    text = _to_sql(name, relation, args, kwargs)
    columns = list(output.columns)
    # A join may return two columns with the same name, which are ambiguous.
    if text is not None and len(set(columns)) == len(columns) and relation.alias not in others:
        view = args[0] if name == "query" else relation.alias
        return QueryRecord.of(name, Query(text, {**others, view: source}), output)
    opaque = Query("", {**others, relation.alias: source}).opaque_provenance(TRANSFORMATION | OPAQUE)
    edges = IdentityEdges(source, TRANSFORMATION | OPAQUE, dict.fromkeys(columns, opaque))
    return OperationRecord(name, "unknown", output, edges, {}, (source, *others.values()))


def _to_sql(name: str, relation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return the SQL of a relation method; None if it has no translation or the call is not supported."""
    build_sql = _SQL_BUILDERS.get(name)
    if build_sql is None or (kwargs and name not in ("aggregate", "join")):
        return None
    try:
        return build_sql(_quote(relation.alias), *args, **kwargs)
    except (TypeError, ValueError):
        return None


def _select_sql(source: str, *expressions: Any) -> str:
    return _join_words("select", _format_expressions(expressions), "from", source)


def _aggregate_sql(source: str, aggr_expr: Any, group_expr: Any = "") -> str:
    return _join_words(_select_sql(source, aggr_expr), "group by", _format_expressions([group_expr]) or "all")


def _order_sql(source: str, *by: Any) -> str:
    return _join_words(_select_sql(source, "*"), "order by", _format_expressions(by))


def _join_sql(source: str, other_rel: Any, condition: Any, how: str = "inner") -> str:
    if how.lower() not in _JOINS:
        msg = f"{how} joins are not supported"
        raise ValueError(msg)
    predicate = _format_expressions([condition])
    is_shared = re.fullmatch(r"[\w\s,\"]+", predicate) is not None
    clause = ("using (", predicate, ")") if is_shared else ("on", predicate)
    return _join_words(_select_sql(source, "*"), how, "join", _quote(other_rel.alias), *clause)


_SQL_BUILDERS: dict[str, Callable[..., str]] = {
    "filter": lambda source, condition: _join_words(
        _select_sql(source, "*"), "where", _format_expressions([condition])
    ),
    "project": _select_sql,
    "select": _select_sql,
    "aggregate": _aggregate_sql,
    "order": _order_sql,
    "sort": _order_sql,
    "distinct": lambda source: _select_sql(source, "distinct *"),
    "unique": lambda source, columns: _select_sql(source, _join_words("distinct", _format_expressions([columns]))),
    "union": lambda source, other: _join_words(
        _select_sql(source, "*"), "union all", _select_sql(_quote(other.alias), "*")
    ),
    "join": _join_sql,
    "query": lambda _, __, text: str(text),
}


def _join_words(*parts: str) -> str:
    return " ".join(parts)


def _format_expressions(expressions: Any) -> str:
    """Join expressions as SQL text; str() of DuckDB's expression objects is SQL."""
    items = [item for group in expressions for item in (group if isinstance(group, (list, tuple)) else [group])]
    return ", ".join(map(str, items))


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_relation(value: Any) -> bool:
    return isinstance(value, sys.modules["duckdb"].DuckDBPyRelation)
