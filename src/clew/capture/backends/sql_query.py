"""SQL that was run: queries as records, statements that write, cursors of DB-API drivers."""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clew.capture.backends.base import (
    Call,
    Patcher,
    Tracing,
    is_frame,
    record_operation,
    statement_provenance,
    version_of_frame,
)
from clew.capture.backends.sql_lineage import (
    FILE_PREFIX,
    PARAMETER,
    STAR,
    Dependencies,
    NamedColumn,
    QueryLineage,
    SourceDatabase,
    UnsupportedSyntaxError,
    connection_database,
    may_write,
    parse_query,
    parse_statements,
    source_names,
)
from clew.capture.diagnostics import record_error
from clew.capture.introspection.read_tracking import reads_defining, record_read, record_scalar
from clew.capture.introspection.user_code import guard, is_user_code
from clew.capture.lineage.datasets import (
    ExternalDataset,
    dataset_at,
)
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.operations import (
    ExplicitEdges,
    LazyEdges,
    OperationRecord,
    OperationType,
    external_version,
    forget_written,
    last_written,
    record_written,
)
from clew.capture.lineage.provenance import Provenance, apply_direct, array_version, as_indirect, compose, union
from clew.capture.lineage.transformations import CONDITIONAL, FILTER, IDENTITY, INFERRED, TRANSFORMATION

if TYPE_CHECKING:
    from collections.abc import Hashable
    from types import FrameType


# Texts in a query that may be names of files.
_PARAMETERS = re.compile(r"[?$:%@]")
_FILES = re.compile(r"'([^']*[./][^']*)'")


class Query:
    """A query that was run: its text and the versions of its tables at that time.

    That of a view is resolved when the view is queried.
    """

    def __init__(
        self, text: Any, tables: Mapping[str, FrameVersion], database: SourceDatabase, *, is_view: bool = False
    ) -> None:
        # A text, or a syntax tree.
        self._tree = text
        self.text = text if isinstance(text, str) else text.sql(dialect=database.dialect)
        self.tables = {name.lower(): version for name, version in tables.items() if not database.has_table(name)}
        self.database = database
        self._is_view = is_view
        # Sources of the values of its parameters.
        self.parameters: Provenance = {}
        if not is_view:
            self.tables.update(self._written_versions())

    @classmethod
    def resolve_view(cls, version: FrameVersion) -> FrameVersion:
        """Return the version of a view that reads the tables as they are now; any other version is unchanged."""
        record = version.made_by
        if not isinstance(record, QueryRecord) or not record.query._is_view or version.dataset is None:
            return version
        view = record.query
        resolved = external_version(version.dataset)
        resolved.columns = version.columns
        resolved.made_by = QueryRecord.of(record.method, cls(view._tree, view.tables, view.database), resolved)
        return resolved

    def kind(self) -> OperationType:
        """Return the operation type, from keywords of the text."""
        words = self.text.lower()
        if re.search(r"\bgroup\s+by\b", words):
            return "aggregation"
        return "join" if re.search(r"\bjoin\b", words) else "selection"

    @cached_property
    def lineage(self) -> QueryLineage | None:
        """Parsed lineage, or None if the text cannot be parsed."""
        known = {
            name: [str(label) for label in version.columns]
            for name, version in self.tables.items()
            # A table has unknown columns if it has none, and a file may have those of an index, too.
            if len(version.columns) and not name.startswith(FILE_PREFIX)
        }
        try:
            return parse_query(self._tree, {**self._table_columns, **known}, self.database.dialect)
        except (ImportError, UnsupportedSyntaxError):
            return None
        except Exception as error:  # noqa: BLE001 - the parser does not cover every dialect
            record_error("query", error)
            return None

    def _written_versions(self) -> dict[str, FrameVersion]:
        """Return the tables and files that the text may read and this process wrote, as they are now."""
        datasets = {name: self.database.dataset(name) for name in _words(self.text) - self.tables.keys()}
        files = {f"{FILE_PREFIX}{path}": dataset_at(path) for path in _FILES.findall(self.text)}
        written = {
            name: last_written(dataset)
            for name, dataset in {**datasets, **files}.items()
            if isinstance(dataset, ExternalDataset)
        }
        return {name: self.resolve_view(version) for name, version in written.items() if version is not None}

    @cached_property
    def _table_columns(self) -> dict[str, list[str]]:
        """Columns of tables: those that the database reports, else those that this process wrote."""
        schema = dict(self.database.schema)
        for name in _words(self.text) - schema.keys() - self.tables.keys():
            written = last_written(self.database.dataset(name))
            if written is not None and len(written.columns):
                schema[name] = [str(label) for label in written.columns]
        return schema

    def fields(self, labels: list[Hashable]) -> dict[Hashable, Provenance]:
        """Return the provenance of each column of the result."""
        if self.lineage is None:
            return dict.fromkeys(labels, self._inferred)
        columns = self.lineage.columns
        stars = [position for position, (name, _) in enumerate(columns) if name == STAR]
        if not stars:
            return self._fields_without_star(labels, columns)
        before, after = columns[: stars[0]], columns[stars[-1] + 1 :]
        middle = labels[len(before) : len(labels) - len(after)]
        end = labels[len(labels) - len(after) :] if after else []
        fields = {
            label: self._to_provenance(uses, label)
            for label, (_, uses) in zip([*labels[: len(before)], *end], [*before, *after], strict=False)
        }
        between = columns[stars[0] : stars[-1] + 1]
        return {**fields, **{label: self.hidden_field(label, between) for label in middle}}

    def _fields_without_star(self, labels: list[Hashable], columns: list[NamedColumn]) -> dict[Hashable, Provenance]:
        by_name = {name.lower(): uses for name, uses in columns}
        names = [str(label).lower() for label in labels]
        if len(set(names)) == len(by_name) == len(columns) and by_name.keys() == set(names):
            return {label: self._to_provenance(by_name[str(label).lower()], label) for label in labels}
        if len(columns) == len(labels):
            # By position: a database names the unnamed columns of the result.
            pairs = zip(labels, columns, strict=True)
            return {label: self._to_provenance(uses, label) for label, (_, uses) in pairs}
        found = {label: by_name.get(str(label).lower()) for label in labels}
        return {
            label: self._inferred if uses is None else self._to_provenance(uses, label) for label, uses in found.items()
        }

    def fields_by_position(self, labels: list[Hashable]) -> dict[Hashable, Provenance]:
        """Return the provenance of columns of a table that the result is inserted into."""
        columns = self.lineage.columns if self.lineage is not None else []
        if len(columns) == len(labels) and all(name != STAR for name, _ in columns):
            pairs = zip(labels, columns, strict=True)
            return {label: self._to_provenance(uses, label) for label, (_, uses) in pairs}
        is_exact = len(columns) == len(self.sources()) == 1
        step = IDENTITY if is_exact else IDENTITY | INFERRED
        return {label: apply_direct(uses, step) for label, uses in self.fields(labels).items()}

    def hidden_field(self, label: Hashable, columns: list[NamedColumn]) -> Provenance:
        """Return the provenance of a column of `*`, of one or several tables with unknown columns."""
        named = next((uses for name, uses in columns if name != STAR and name.lower() == str(label).lower()), None)
        if named is not None:
            return self._to_provenance(named, label)
        stars = [uses for name, uses in columns if name == STAR]
        found = union(*[self._to_provenance(uses, label) for uses in stars])
        return found if len(stars) == 1 else apply_direct(found, IDENTITY | INFERRED)

    @property
    def _inferred(self) -> Provenance:
        return self.opaque_provenance(TRANSFORMATION | INFERRED)

    def opaque_provenance(self, flags: int) -> Provenance:
        """Return every column of every table with the flags of an unknown use."""
        return compose(union(*[version.fields(None) for version in self.sources()]), flags)

    @cached_property
    def rows(self) -> Provenance:
        """Dependencies of the whole result."""
        return self._to_provenance(self.lineage.rows, None) if self.lineage is not None else {}

    def sources(self) -> tuple[FrameVersion, ...]:
        """Return the versions of the tables read; of all candidate tables if the text cannot be parsed."""
        parameters = dict.fromkeys(version for version, _ in self.parameters)
        if self.lineage is None:
            words = _words(self.text)
            names = [name for name in self._table_columns if name in words and name not in self.tables]
            files = [f"{FILE_PREFIX}{path}" for path in _FILES.findall(self.text)]
            return (*self.tables.values(), *[self._source(name) for name in (*names, *files)], *parameters)
        return tuple(dict.fromkeys([*map(self._source, sorted(self.lineage.tables)), *parameters]))

    def _to_provenance(self, dependencies: Dependencies, label: Hashable) -> Provenance:
        sources = []
        for (table, column), flags in dependencies.items():
            if table == PARAMETER:
                sources.append(compose(self.parameters, flags))
                continue
            version = self._source(table)
            source_label = label if column == STAR else _match_case(version, column, label)
            record = version.made_by
            if isinstance(record, QueryRecord) and not len(version.columns) and record.query.lineage is not None:
                # A view whose columns are unknown: continue with its query.
                known = record.query.hidden_field(source_label, record.query.lineage.columns)
            else:
                known = version.field(source_label)
            sources.append(compose(known, flags))
        return union(*sources)

    def _source(self, table: str) -> FrameVersion:
        key = table if table.startswith(FILE_PREFIX) else table.lower()
        version = self.tables.get(key)
        if version is None:
            if table.startswith(FILE_PREFIX):
                path = table.removeprefix(FILE_PREFIX)
                dataset = dataset_at(path) or ExternalDataset("file", path)
                version = last_written(dataset) or external_version(dataset)
            else:
                version = self.database.table(table)
            self.tables[key] = version
        return version


def _words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[\w.]+", text)}


def _match_case(version: FrameVersion, column: str, label: Hashable) -> Hashable:
    """Return a column's label with the case used by the table, or by the result if the columns are unknown."""
    labels = version.columns if len(version.columns) else [label]
    return next((known for known in labels if str(known).lower() == column.lower()), column)


class QueryRecord(OperationRecord, kw_only=True):
    """Record of a query; parents and row dependencies come from its parsed text."""

    query: Query

    @classmethod
    def of(cls, method: str, query: Query, output: FrameVersion, kind: OperationType | None = None) -> QueryRecord:
        """Create the record of a query that produced `output`."""
        return cls(
            method, kind or query.kind(), output, LazyEdges.from_callable(query.fields, output.labels()), query=query
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


def referenced_frames(
    text: str, namespaces: Mapping[str, Any], caller: FrameType | None = None
) -> dict[str, FrameVersion]:
    """Return the current versions of the frames that the text mentions by variable name.

    The columns of an Arrow table of unknown origin are inferred from the statements of `caller` that define it.
    """
    named = {word: namespaces[word] for word in set(re.findall(r"\w+", text)) if word in namespaces}
    versions = {}
    for name, value in named.items():
        # A lazy frame that is no table of the query may never be collected: its schema is not resolved.
        is_lazy = hasattr(value, "collect_schema") and not hasattr(value, "shape")
        if is_frame(value) and not (
            is_lazy and not re.search(rf'(?:\bfrom|\bjoin|,)\s*"?{name}\b', text, re.IGNORECASE)
        ):
            versions[name] = version_of_frame(value)
        elif (known := array_version(value)) is not None:
            versions[name] = known
        elif hasattr(getattr(value, "schema", None), "names") and not is_frame(value):
            version = FrameVersion(columns=list(value.schema.names), name=name, engine="pyarrow")
            reads = union(*reads_defining(caller, {name})) if caller is not None else {}
            if reads:
                inferred = apply_direct(reads, TRANSFORMATION | INFERRED)
                edges = ExplicitEdges(dict.fromkeys(version.columns, inferred))
                version.made_by = OperationRecord("from_pandas", "unknown", version, edges)
            versions[name] = version
    return versions


class StatementRecorder:
    """Records what the statements of a text write, in order."""

    def __init__(
        self, call: Call, engine: str, connection: Any, database: SourceDatabase, frames: Mapping[str, FrameVersion]
    ) -> None:
        self._call = call
        self._engine = engine
        self._connection = connection
        self._database = database
        self._frames = frames

    def run(self, text: str) -> Query | None:
        """Record the tables and files that a text writes; return the query whose result it returns, if any."""
        if not may_write(text):
            return self._query(text)
        try:
            trees = parse_statements(text, self._database.dialect)
        except ImportError:
            return self._query(text)
        except Exception as error:  # noqa: BLE001 - the parser does not cover every dialect
            record_error("query", error)
            return self._query(text)
        last: Query | None = None
        for tree in trees:
            rule = _STATEMENTS.get(type(tree).__name__)
            target = tree.args.get("into") if type(tree).__name__ == "Select" else None
            last = None
            if rule is not None:
                rule(self, tree)
            elif target is not None:
                tree.set("into", None)
                self._create_as(self._name(target.this), self._query(tree))
            else:
                last = self._query(tree)
        return last

    def append(self, name: str, fields: dict[Hashable, Provenance], rows: Provenance | None = None) -> None:
        """Record a new version of a table with more rows."""
        old = self._database.table(name)
        labels = dict.fromkeys([*old.columns, *fields])
        merged = {label: union(_previous(old, label), fields.get(label)) for label in labels}
        self._write(self._database.dataset(name), merged, union(_previous_rows(old), rows))

    def append_frame(self, name: str, source: FrameVersion, *, by_name: bool) -> None:
        """Record the rows of a frame that are added to a table, by position unless `by_name`."""
        labels = self._database.table(name).columns or self._columns_after(name)
        pairs = zip(source.columns if by_name else labels, source.columns, strict=False)
        self.append(name, {label: source.field(column) for label, column in pairs}, {})

    def append_values(self, name: str, values: Provenance) -> None:
        """Record rows of values that are added to a table."""
        self.append(name, dict.fromkeys(self._database.table(name).columns or self._columns_after(name), values))

    def create(self, name: str, fields: dict[Hashable, Provenance], parents: tuple[FrameVersion, ...]) -> None:
        """Record a table with these columns."""
        self._write(self._database.dataset(name), fields, {}, parents)

    def _write(
        self,
        dataset: ExternalDataset,
        fields: dict[Hashable, Provenance],
        rows: Provenance | None = None,
        parents: tuple[FrameVersion, ...] = (),
    ) -> None:
        version = external_version(dataset)
        version.columns = list(fields)
        kind: OperationType = "io" if any(fields.values()) else "creation"
        operation = OperationRecord(self._call.name, kind, version, ExplicitEdges(fields), rows or {}, parents)
        record_operation(operation, self._engine, self._call.location())
        record_written(version)

    def _query(self, text: Any, *, is_view: bool = False) -> Query:
        query = Query(text, self._frames, self._database, is_view=is_view)
        if len(self._call.values()) > 1 and _PARAMETERS.search(query.text):
            query.parameters = statement_provenance(self._call, self._call.name)
        return query

    def _name(self, table: Any) -> str:
        table = table.this if type(table).__name__ == "Schema" else table
        return next(iter(source_names(table, self._database.dialect)), "").removeprefix(FILE_PREFIX)

    def _create(self, tree: Any) -> None:
        """Record CREATE TABLE and CREATE VIEW."""
        from sqlglot import expressions as exp

        if tree.kind not in ("TABLE", "VIEW"):
            # Such as a macro or an index, whose names are no tables.
            return
        name = self._name(tree.this)
        if tree.args.get("exists") and self._database.has_table(name):
            return
        definitions = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
        columns = [item.name for item in definitions if isinstance(item, exp.ColumnDef | exp.Identifier)]
        if isinstance(tree.expression, exp.Query):
            self._create_as(name, self._query(tree.expression.unnest(), is_view=tree.kind == "VIEW"), columns)
        else:
            self._create_empty(name, columns or self._columns_after(name))

    def _create_empty(self, name: str, columns: list[str]) -> None:
        version = external_version(self._database.dataset(name))
        version.columns = columns
        version.made_by = OperationRecord("create", "creation", version, ExplicitEdges({}))
        record_written(version)

    def _create_as(self, name: str, query: Query, columns: list[str] | None = None) -> None:
        selected = [column for column, _ in query.lineage.columns] if query.lineage is not None else [STAR]
        if not columns:
            # Names of unnamed columns, and `*` of unknown tables: as the database reports them.
            columns = selected if {STAR, ""}.isdisjoint(selected) else self._columns_after(name)
        self._write_query(self._database.dataset(name), query, list(columns))

    def _write_query(self, dataset: ExternalDataset, query: Query, columns: list[str]) -> None:
        version = external_version(dataset)
        version.columns = columns
        record_operation(QueryRecord.of(self._call.name, query, version), self._engine, self._call.location())
        record_written(version)

    def _columns_after(self, name: str) -> list[str]:
        return connection_database(self._connection, name).schema.get(name.lower(), [])

    def _insert(self, tree: Any) -> None:
        from sqlglot import expressions as exp

        name = self._name(tree.this)
        named = [item.name for item in tree.this.expressions] if isinstance(tree.this, exp.Schema) else []
        labels: list[Hashable] = [*(named or self._database.table(name).columns or self._columns_after(name))]
        source = tree.expression
        if tree.args.get("with_") is not None and isinstance(source, exp.Query):
            source.set("with_", tree.args["with_"])
        if isinstance(source, exp.Query) and not isinstance(source, exp.Values):
            query = self._query(source.unnest())
            fields = query.fields(labels) if tree.args.get("by_name") else query.fields_by_position(labels)
            self.append(name, fields, query.rows)
        else:
            # Values of parameters were read by the statement.
            is_literal = source is None or source.find(exp.Placeholder, exp.Parameter) is None
            values = {} if is_literal else statement_provenance(self._call, self._call.name)
            self.append(name, dict.fromkeys(labels, values))

    def _update(self, tree: Any) -> None:
        from sqlglot import expressions as exp

        name, assigned = self._name(tree.this), {item.this.name: item.expression for item in tree.expressions}
        select = exp.select(*[exp.alias_(value.copy(), key) for key, value in assigned.items()])
        select = select.from_(tree.this.copy())
        other = tree.args.get("from_") or tree.args.get("from")
        if other is not None:
            select = select.join(other.this.copy())
        if tree.args.get("where") is not None:
            select = select.where(tree.args["where"].this.copy())
        query = self._query(select)
        values = query.fields_by_position(list(assigned))
        conditions = as_indirect(query.rows, CONDITIONAL)
        fields = {label: union(apply_direct(value, TRANSFORMATION), conditions) for label, value in values.items()}
        self.append(name, fields)

    def _delete(self, tree: Any) -> None:
        from sqlglot import expressions as exp

        select = exp.select("1").from_(tree.this.copy())
        where = tree.args.get("where")
        query = self._query(select.where(where.this.copy()) if where is not None else select)
        self.append(self._name(tree.this), {}, as_indirect(query.rows, FILTER))

    def _merge(self, tree: Any) -> None:
        from sqlglot import expressions as exp

        query = self._query(exp.select("*").from_(tree.args["using"].copy()))
        values = query.opaque_provenance(TRANSFORMATION | INFERRED)
        name = self._name(tree.this)
        self.append(name, dict.fromkeys(self._database.table(name).columns or self._columns_after(name), values))

    def _copy(self, tree: Any) -> None:
        from sqlglot import expressions as exp

        dataset = dataset_at(tree.args["files"][0].name) if tree.args.get("files") else None
        if dataset is None:
            return
        if not tree.args.get("kind"):
            source = tree.this.unnest() if isinstance(tree.this, exp.Subquery) else exp.select("*").from_(tree.this)
            query = self._query(source)
            columns = [name for name, _ in query.lineage.columns] if query.lineage is not None else []
            self._write_query(dataset, query, [name for name in columns if name != STAR])
            return
        name, file = self._name(tree.this), last_written(dataset) or external_version(dataset)
        labels = self._database.table(name).columns or self._columns_after(name)
        self.append(name, {label: file.field(label) for label in labels})

    def _drop(self, tree: Any) -> None:
        for table in tree.args.get("tables") or [tree.this]:
            forget_written(self._database.dataset(self._name(table)))

    def _alter(self, tree: Any) -> None:
        from sqlglot import expressions as exp

        name = self._name(tree.this)
        old = self._database.table(name)
        fields = {label: _previous(old, label) for label in old.columns}
        for action in tree.args.get("actions") or ():
            # `RENAME a TO b` without the word COLUMN is parsed as a rename of the table, with an option.
            option = next(iter(tree.args.get("options") or ()), None)
            if isinstance(action, exp.AlterRename) and isinstance(option, exp.ToTableProperty):
                before, after = action.this.name.lower(), option.this.name
                fields = {after if str(label).lower() == before else label: uses for label, uses in fields.items()}
            elif isinstance(action, exp.AlterRename):
                forget_written(self._database.dataset(name))
                name = self._name(action.this)
            elif isinstance(action, exp.RenameColumn):
                before, after = action.this.name.lower(), action.args["to"].name
                fields = {after if str(label).lower() == before else label: uses for label, uses in fields.items()}
            else:
                return
        self._write(self._database.dataset(name), fields, _previous_rows(old))

    def _truncate(self, tree: Any) -> None:
        for table in tree.expressions:
            self._create_empty(self._name(table), list(self._database.table(self._name(table)).columns))


_STATEMENTS: dict[str, Callable[[StatementRecorder, Any], None]] = {
    "Create": StatementRecorder._create,
    "Insert": StatementRecorder._insert,
    "Update": StatementRecorder._update,
    "Delete": StatementRecorder._delete,
    "Merge": StatementRecorder._merge,
    "Copy": StatementRecorder._copy,
    "Drop": StatementRecorder._drop,
    "Alter": StatementRecorder._alter,
    "TruncateTable": StatementRecorder._truncate,
}


def _previous(table: FrameVersion, label: Hashable) -> Provenance:
    """Return the sources of a table's column; rows that this process did not write have the table as origin."""
    return table.field(label) if table.made_by is None else table.made_by.edges.of(label)


def _previous_rows(table: FrameVersion) -> Provenance:
    return table.made_by.rows if table.made_by is not None else {}


# The last query of a cursor, and the version of its result once it is fetched.
_cursor_queries: weakref.WeakKeyDictionary[Any, tuple[Query, FrameVersion | None]] = weakref.WeakKeyDictionary()
_EXECUTE_METHODS = ("execute", "executemany", "executescript")
# Of sqlite3.connect, before `factory`.
_MAX_POSITIONAL = 5
_FETCH_METHODS = ("fetchall", "fetchone", "fetchmany", "__iter__")


def install_driver(name: str) -> None:
    """Trace the queries of sqlite3 or psycopg."""
    (_install_sqlite if name == "sqlite3" else _install_psycopg)()


def _install_sqlite() -> None:
    """Trace connections that user code opens with sqlite3; its classes cannot be patched, so subclasses are used."""
    sqlite3 = sys.modules["sqlite3"]
    patches = _patchers.setdefault("sqlite3", Patcher("sqlite3"))
    original, classes = sqlite3.connect, {}

    def traced_class(base: type, methods: tuple[str, ...], body: dict[str, Any] | None = None) -> type:
        if base not in classes:
            names = {"__module__": base.__module__, "__doc__": base.__doc__, **(body or {})}
            classes[base] = type(base.__name__, (base,), names)
            for name in methods:
                patches.method(classes[base], name, _CURSOR_METHODS[name])
        return classes[base]

    def connection_class(base: Any) -> type:
        def cursor(self: Any, factory: Any = sqlite3.Cursor) -> Any:
            is_class = isinstance(factory, type)
            return base.cursor(self, traced_class(factory, tuple(_CURSOR_METHODS)) if is_class else factory)

        # The methods of the base class would not use the traced cursor.
        body = {name: _run_on_cursor(name) for name in _EXECUTE_METHODS}
        return traced_class(base, _EXECUTE_METHODS, {"cursor": cursor, **body})

    def connect(*args: Any, **kwargs: Any) -> Any:
        factory = kwargs.get("factory", sqlite3.Connection)
        is_traced = isinstance(factory, type) and len(args) <= _MAX_POSITIONAL and not guard.depth
        if is_traced and is_user_code(sys._getframe(1).f_code):
            kwargs = {**kwargs, "factory": connection_class(factory)}
        return original(*args, **kwargs)

    for module in ("sqlite3", "sqlite3.dbapi2"):
        if module in sys.modules:
            patches.wrap(sys.modules[module], "connect", connect, original)


def _run_on_cursor(name: str) -> Callable[..., Any]:
    return lambda connection, *args: getattr(connection.cursor(), name)(*args)


def _install_psycopg() -> None:
    """Trace the cursors and connections of psycopg."""
    psycopg = sys.modules["psycopg"]
    patches = _patchers.setdefault("psycopg", Patcher("psycopg"))
    for name, tracing in _CURSOR_METHODS.items():
        if hasattr(psycopg.Cursor, name):
            patches.method(psycopg.Cursor, name, tracing)
    patches.method(psycopg.Connection, "execute", _CURSOR_METHODS["execute"])


def uninstall_drivers() -> None:
    """Remove the patches of the drivers."""
    for patches in _patchers.values():
        patches.remove()


_patchers: dict[str, Patcher] = {}


def _prepare_execute(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Read the schema before a statement that may change it."""
    text = _statement_text(call)
    if may_write(text):
        call.pre_state = connection_database(getattr(call.receiver, "connection", call.receiver), text)
    return call.args, call.kwargs


def _statement_text(call: Call) -> str:
    text = call.first_argument()
    if isinstance(text, bytes):
        return text.decode()
    # psycopg composes statements from parts.
    return text if isinstance(text, str) else str(text.as_string(None)) if hasattr(text, "as_string") else ""


def _trace_execute(call: Call) -> None:
    """Trace cursor.execute(text); its result is fetched later."""
    cursor = call.result if hasattr(call.result, "fetchall") else call.receiver
    text, connection = _statement_text(call), getattr(cursor, "connection", cursor)
    database = call.pre_state or connection_database(connection, text)
    engine = type(cursor).__module__.partition(".")[0]
    query = StatementRecorder(call, engine, connection, database, {}).run(text)
    if query is not None:
        _cursor_queries[cursor] = (query, None)
    else:
        _cursor_queries.pop(cursor, None)


def _trace_fetch(call: Call) -> None:
    """Trace cursor.fetchall(): the statement read the result of the query."""
    query, version = _cursor_queries.get(call.receiver, (None, None))
    if query is None or call.receiver.description is None:
        return
    if version is None:
        engine = type(call.receiver).__module__.partition(".")[0]
        version = FrameVersion(columns=[column[0] for column in call.receiver.description], engine=engine)
        record_operation(QueryRecord.of("execute", query, version), engine, call.location())
        _cursor_queries[call.receiver] = (query, version)
    record_fetch(call, version)


def record_fetch(call: Call, version: FrameVersion) -> None:
    """Record that a call returned rows of a result as Python objects."""
    record_read(call.caller, version)
    if call.name in ("fetchone", "fetchall"):
        # `fetchall()[0][0]` is a scalar.
        record_scalar(call.caller, version.fields())


_CURSOR_METHODS = {
    **dict.fromkeys(_EXECUTE_METHODS, Tracing(_trace_execute, prepare=_prepare_execute)),
    **dict.fromkeys(_FETCH_METHODS, Tracing(_trace_fetch)),
}
