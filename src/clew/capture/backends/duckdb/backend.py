"""Patches of DuckDB and `mo.sql`; relation methods as SQL."""

from __future__ import annotations

import functools
import re
import sys
import weakref
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct, field

from clew.capture.backends.base import (
    Backend,
    Call,
    Patch,
    Patcher,
    Prepare,
    Rule,
    Tracing,
    is_frame,
    snapshot,
    statement_provenance,
    version_of_frame,
)
from clew.capture.backends.sql_lineage import SourceDatabase, connection_database, may_write
from clew.capture.backends.sql_query import (
    Query,
    QueryRecord,
    StatementRecorder,
    record_fetch,
    referenced_frames,
)
from clew.capture.introspection.read_tracking import record_read
from clew.capture.introspection.user_code import guard, read_locals, strip_frame, tracing_suppressed
from clew.capture.lineage.datasets import ExternalDataset, attached_table, memory_name, qualify_table
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges, OperationRecord
from clew.capture.lineage.provenance import array_version, attach_to_array, union
from clew.capture.lineage.transformations import IDENTITY, OPAQUE, TRANSFORMATION

if TYPE_CHECKING:
    from types import FrameType

_QUERY_FUNCTIONS = ("sql", "query", "from_query")
_EXECUTE_FUNCTIONS = ("execute", "executemany")
_FRAME_METHODS = ("df", "to_df", "fetchdf", "fetch_df", "fetch_df_chunk", "pl")
_ROW_METHODS = ("fetchall", "fetchone", "fetchmany", "fetchnumpy", "iter_rows", "to_dicts", "torch", "tf")
_ARROW_METHODS = (
    "arrow", "fetch_arrow_table", "to_arrow_table", "fetch_record_batch", "fetch_arrow_reader", "to_arrow_reader",
)  # fmt: skip
_READ_FUNCTIONS = ("read_csv", "read_parquet", "read_json", "from_csv_auto", "from_parquet")
_WRITE_METHODS = ("write_csv", "to_csv", "write_parquet", "to_parquet")
_TABLE_METHODS = ("create", "to_table", "create_view", "to_view", "insert_into", "insert")
_MARIMO_MODULES = ("marimo", "marimo._sql.sql")
# Names of tables in a text, before it is parsed.
_TABLE_NAMES = re.compile(
    r"(?:\b(?:from|join|into|update|table|using)|,)\s*((?:\w+|\"[^\"]+\")(?:\.(?:\w+|\"[^\"]+\"))*)", re.IGNORECASE
)
_DATABASES = "select database_name, path, type, current_database() from duckdb_databases() where not internal"
_USE = re.compile(r"^\s*use\s+\"?(\w+)", re.IGNORECASE)
# DuckDB looks up frames among the variables of the calling Python frame, so it is called with the user's variables.
_CALL_CODE = compile("_clew_call()", "<clew>", "eval")
# The last query of a connection and its start, until its result is fetched.
_last_queries: weakref.WeakKeyDictionary[Any, tuple[Query, float]] = weakref.WeakKeyDictionary()


class ConnectionState(Struct, eq=False, weakref=True):
    """State of a database instance, shared by the cursors of its connection."""

    # Frames that are registered under a name.
    frames: dict[str, FrameVersion] = field(default_factory=dict)
    # Path and type of the attached databases, and the database that names without one refer to.
    databases: dict[str, tuple[str, str]] = field(default_factory=dict)
    current: str = ""

    def read_databases(self, cursor: Any) -> None:
        """Read the attached databases; the path of one in memory is `:memory:` with a number."""
        rows = cursor.execute(_DATABASES).fetchall()
        self.databases = {name.lower(): (path or memory_name(self, "duckdb"), kind) for name, path, kind, _ in rows}
        self.current = self.current or next((row[3].lower() for row in rows), "")


class DuckDBBackend(Backend):
    """Capture of DuckDB relations and queries."""

    name: ClassVar[str] = "duckdb"

    def __init__(self) -> None:
        self._patches = Patcher(self.name)
        self._marimo_patches = Patcher("marimo", self.name)
        self._ibis_patches = Patcher("ibis", self.name)
        # Relations are extension objects without attributes: their versions are stored here for their lifetime.
        self._versions: dict[int, tuple[weakref.ref[Any], FrameVersion]] = {}
        # By the id of a connection, a relation or an appender.
        self._states: dict[int, tuple[weakref.ref[Any], ConnectionState]] = {}
        self._named: dict[str, ConnectionState] = {}

    def install(self) -> None:
        """Patch queries of the module and of connections, relations and their results."""
        duckdb = self.module
        connection, relation = duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation
        self._patch_all((duckdb, connection), (*_QUERY_FUNCTIONS, "table", "view"), _trace_query, _prepare_query)
        self._patch_all((duckdb, connection), _EXECUTE_FUNCTIONS, _trace_execute, _prepare_query)
        self._patch_all((duckdb, connection), ("from_df", "from_arrow"), _trace_from_df)
        self._patch_all((duckdb, connection), _READ_FUNCTIONS, self.record_read)
        for name, rule in _CONNECTION_RULES.items():
            self._patch_all((duckdb, connection), (name,), rule)
        self._patch_all((duckdb,), ("connect",), _trace_connect)
        self._patch_all((duckdb, connection, relation), _FRAME_METHODS, _trace_fetch)
        self._patch_all((duckdb, connection, relation), _ARROW_METHODS, _trace_arrow)
        self._patch_all((duckdb, connection, relation), _ROW_METHODS, _trace_rows)
        self._patch_all((relation,), _WRITE_METHODS, self.record_write)
        self._patch_all((relation,), _TABLE_METHODS, _trace_to_table)
        methods = [name for name in dir(relation) if not name.startswith("_") and callable(getattr(relation, name))]
        self._patch_all((relation,), methods, _trace_relation)
        if hasattr(duckdb, "Appender"):
            self._patch_all((duckdb.Appender,), ("append_row", "append_rows"), _trace_append_row)

    def _patch_all(
        self, owners: Iterable[Any], names: Iterable[str], rule: Rule, prepare: Prepare | None = None
    ) -> None:
        for owner in owners:
            for name in names:
                self._patch(owner, name, rule, prepare)

    def install_in_marimo(self) -> None:
        """Patch `mo.sql`, which SQL cells call; one operation, without the queries that display its result."""
        for name in _MARIMO_MODULES:
            if hasattr(sys.modules.get(name), "sql"):
                self._marimo_patches.function(sys.modules[name], "sql", Tracing(_trace_query, prepare=_prepare_query))

    def install_in_ibis(self) -> None:
        """Patch the methods of ibis expressions that run a query."""
        expression = sys.modules["ibis.expr.types.core"].Expr
        for name in ("execute", "to_pandas", "to_polars", "to_pyarrow"):
            if hasattr(expression, name):
                self._ibis_patches.method(expression, name, Tracing(_trace_ibis))

    def uninstall(self) -> None:
        """Remove all patches."""
        for patches in (self._patches, self._marimo_patches, self._ibis_patches):
            patches.remove()

    def _patch(self, owner: Any, name: str, rule: Rule, prepare: Prepare | None = None) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        patch = Patch(original, name, Tracing(rule, prepare=prepare), is_function=not isinstance(owner, type))
        trace = self._patches.trace

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            try:
                frame = sys._getframe(1)
                if guard.depth:
                    return _call_in_scope(original, frame, *args, **kwargs)
                in_scope = functools.partial(_call_in_scope, original, frame)
                return trace(patch._replace(original=in_scope), args, kwargs, frame)
            except BaseException as error:
                strip_frame(error)
                raise

        self._patches.wrap(owner, name, wrapper, original)

    @property
    def frame_types(self) -> tuple[type, ...]:
        """Relations."""
        return (self.module.DuckDBPyRelation,)

    @property
    def data_types(self) -> tuple[type, ...]:
        """No class: a relation is a query."""
        return ()

    def snapshot(self, frame: Any) -> FrameVersion:
        """Create a version of a relation."""
        version = FrameVersion(columns=list(frame.columns), object_id=id(frame), engine=self.name)
        # As strings: DuckDB warns if its type objects outlive it.
        version.blocks = [item for position, kind in enumerate(frame.dtypes) for item in (str(kind), (position,))]
        return version

    def attached_version(self, frame: Any) -> FrameVersion | None:
        """Return the version of a relation, if any."""
        entry = self._versions.get(id(frame))
        return entry[1] if entry is not None and entry[0]() is frame else None

    def attach_version(self, frame: Any, version: FrameVersion) -> None:
        """Store the version of a relation for its lifetime."""
        key = id(frame)
        # An id() is reused after garbage collection, so the weakref callback must drop the entry.
        self._versions[key] = (weakref.ref(frame, lambda _: self._versions.pop(key, None)), version)

    def record(self, call: Call, operation: OperationRecord, frame: Any = None) -> None:
        """Record the operation of a call; a relation belongs to the connection that created it."""
        super().record(call, operation, frame)
        if isinstance(frame, self.frame_types):
            self.share_state(frame, self.state_of(_owner(call)))

    def state_of(self, owner: Any) -> ConnectionState:
        """Return the state of a connection, a relation or an appender."""
        entry = self._states.get(id(owner))
        if entry is not None and entry[0]() is owner:
            return entry[1]
        # The object of the default connection is created again if nothing refers to it.
        is_default = owner is self.module.default_connection()
        state = self.share_state(owner, self.named_state("") if is_default else ConnectionState())
        if not state.databases and isinstance(owner, self.module.DuckDBPyConnection):
            with tracing_suppressed():
                state.read_databases(owner.cursor())
        return state

    def share_state(self, owner: Any, state: ConnectionState) -> ConnectionState:
        """Set the state of a connection, a relation or an appender for its lifetime."""
        key = id(owner)
        self._states[key] = (weakref.ref(owner, lambda _: self._states.pop(key, None)), state)
        return state

    def named_state(self, name: str) -> ConnectionState:
        """Return the state of an in-memory database that connections share by name."""
        return self._named.setdefault(name, ConnectionState())

    def database(self, connection: Any, text: str, frames: Mapping[str, FrameVersion] | None = None) -> SourceDatabase:
        """Return the database of a connection, with the columns of the tables that a text mentions.

        The catalog is read on a cursor of its own: the transaction and the result of the connection are not touched.
        `frames` are the variables that the text mentions.
        """
        state, schema = self.state_of(connection), {}
        # A relation does not tell its connection.
        if isinstance(connection, self.module.DuckDBPyConnection):
            with tracing_suppressed():
                cursor = connection.cursor()
                state.read_databases(cursor)
                schema = self._read_schema(cursor, text, state, frames or {})
        # No function of this module: a reference to it would prevent that DuckDB is freed at exit.
        return SourceDatabase("duckdb", functools.partial(attached_table, dict(state.databases), state.current), schema)

    def _read_schema(
        self, cursor: Any, text: str, state: ConnectionState, frames: Mapping[str, FrameVersion]
    ) -> dict[str, list[str]]:
        names = {match.replace('"', "").lower() for match in _TABLE_NAMES.findall(text)}
        is_in_memory = all(path.startswith(":memory:") for path, _ in state.databases.values())
        if is_in_memory:
            # Tables in memory that have the name of a variable were created by this process.
            names -= {name.lower() for name in frames}
        # The catalog of an attached database may be on another machine.
        if not names or any(kind != "duckdb" for _, kind in state.databases.values()):
            return {}
        tables = {name: qualify_table(name, state.databases, state.current) for name in names}
        # Not the columns of views: DuckDB would open the files that they read.
        marks = ", ".join("?" for _ in tables)
        query = (
            f"select database_name, schema_name, table_name from duckdb_tables() where lower(table_name) in ({marks})"  # noqa: S608
        )
        rows = cursor.execute(query, [table[2] for table in tables.values()]).fetchall()
        existing = {tuple(part.lower() for part in row): row for row in rows}
        schema = {}
        for name, table in tables.items():
            if table in existing:
                quoted = ".".join(_quote(part) for part in existing[table]).replace("'", "''")
                schema[name] = [row[1] for row in cursor.execute(f"pragma table_info('{quoted}')").fetchall()]
        return schema


BACKEND = DuckDBBackend()


def _call_in_scope(original: Any, frame: FrameType, /, *args: Any, **kwargs: Any) -> Any:
    try:
        call = functools.partial(original, *args, **kwargs)
        with tracing_suppressed():
            return eval(_CALL_CODE, frame.f_globals, {**read_locals(frame), "_clew_call": call})  # noqa: S307 - a constant expression
    except BaseException as error:
        # This function, and the expression.
        strip_frame(error, 2)
        raise


def _owner(call: Call) -> Any:
    """Return the connection or relation that a call belongs to; functions of the module have a default connection."""
    if call.receiver is not None:
        return call.receiver
    connection = call.kwargs.get("connection")
    # `mo.sql` imports DuckDB when it is called.
    if connection is None and BACKEND.name in sys.modules:
        connection = BACKEND.module.default_connection()
    return connection


def _connection(call: Call) -> Any:
    """Return the connection that a query is sent to: of any driver for `mo.sql(text, engine=...)`."""
    engine = call.kwargs.get("engine")
    return engine if engine is not None else _owner(call)


def _prepare_query(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Read the schema before a statement that may change it."""
    text = call.first_argument()
    connection = _connection(call)
    if may_write(text) and connection is not None:
        call.pre_state = connection_database(connection, text)
    return call.args, call.kwargs


def _run_statements(call: Call) -> Query | None:
    """Record what the text of a call writes; return the query whose result it returns."""
    text, connection = call.first_argument(), _connection(call)
    if not isinstance(text, str):
        return None
    if call.name in ("table", "view"):
        text = f"select * from {text}"  # noqa: S608 - parsed, not run
    use = _USE.match(text)
    if use is not None:
        BACKEND.state_of(connection).current = use[1].lower()
    frames: dict[str, FrameVersion] = {}
    if _is_duckdb(connection):
        names = ChainMap(read_locals(call.caller), call.caller.f_globals)
        frames = {**referenced_frames(text, names, call.caller), **BACKEND.state_of(connection).frames}
    database = call.pre_state or connection_database(connection, text, frames)
    return StatementRecorder(call, BACKEND.name, connection, database, frames).run(text)


def _trace_query(call: Call) -> None:
    """Trace duckdb.sql(text), which returns a lazy relation, and mo.sql(text)."""
    query = _run_statements(call)
    if query is not None and is_frame(call.result):
        BACKEND.record(call, QueryRecord.of(call.name, query, snapshot(call.result)), call.result)


def _trace_ibis(call: Call) -> None:
    """Trace expression.execute() of ibis on DuckDB."""
    backend = call.receiver._find_backend(use_default=True)
    if backend.name != BACKEND.name:
        return
    text = str(sys.modules["ibis"].to_sql(call.receiver))
    nodes = call.receiver.op().find(sys.modules["ibis.expr.operations"].InMemoryTable)
    data = {node.name: getattr(node.data, "obj", None) for node in nodes}
    frames = {name: version_of_frame(value) for name, value in data.items() if is_frame(value)}
    database = BACKEND.database(backend.con, text)
    query = Query(text, {**BACKEND.state_of(backend.con).frames, **frames}, database)
    if is_frame(call.result):
        BACKEND.record(call, QueryRecord.of(call.name, query, snapshot(call.result)), call.result)
    elif hasattr(getattr(call.result, "schema", None), "names"):
        version = FrameVersion(columns=list(call.result.schema.names), engine=BACKEND.name)
        BACKEND.record(call, QueryRecord.of(call.name, query, version))
        attach_to_array(call.result, version.fields(), version)


def _trace_execute(call: Call) -> None:
    """Trace connection.execute(text); its result is fetched later."""
    query = _run_statements(call)
    if query is not None:
        _last_queries[call.result] = (query, call.started)
    else:
        _last_queries.pop(call.result, None)


def _trace_fetch(call: Call) -> None:
    """Trace relation.df() and connection.execute(text).df()."""
    source, result = _owner(call), call.result
    if not is_frame(result):
        return
    version = snapshot(result)
    source_version = BACKEND.attached_version(source)
    if source_version is not None:
        # The second of two columns with the same name is renamed in a frame.
        renamed = {
            after: source_version.field(before)
            for before, after in zip(source_version.columns, version.columns, strict=False)
            if before != after
        }
        edges = IdentityEdges(source_version, IDENTITY, renamed)
        BACKEND.record(call, OperationRecord(call.name, "selection", version, edges, {}, (source_version,)), result)
    elif source in _last_queries:
        query, call.started = _last_queries[source]
        BACKEND.record(call, QueryRecord.of("execute", query, version), result)


def _result_version(call: Call) -> FrameVersion | None:
    """Return the version of a relation, or of the result of the last query of a connection."""
    source = _owner(call)
    version = BACKEND.attached_version(source)
    if version is None and source in _last_queries and source.description:
        query, call.started = _last_queries[source]
        version = FrameVersion(columns=[column[0] for column in source.description], engine=BACKEND.name)
        BACKEND.record(call, QueryRecord.of("execute", query, version))
    return version


def _trace_rows(call: Call) -> None:
    """Trace relation.fetchall() and other methods that return Python objects or arrays."""
    version = _result_version(call)
    if version is not None:
        record_fetch(call, version)


def _trace_arrow(call: Call) -> None:
    """Trace relation.arrow() and other methods that return Arrow data."""
    version = _result_version(call)
    if version is not None:
        attach_to_array(call.result, version.fields(), version)
        record_read(call.caller, version)


def _trace_from_df(call: Call) -> None:
    """Trace duckdb.from_df(frame) and duckdb.from_arrow(table)."""
    values = [value for value in call.values() if type(value) is not BACKEND.module.DuckDBPyConnection]
    versions = [version_of_frame(value) if is_frame(value) else array_version(value) for value in values]
    source = next((version for version in versions if version is not None), None)
    inferred = statement_provenance(call, call.name) if source is None else {}
    if inferred:
        # An Arrow table that was made from values which left a frame.
        version = BACKEND.snapshot(call.result)
        edges = ExplicitEdges(dict.fromkeys(version.columns, inferred))
        BACKEND.record(call, OperationRecord(call.name, "unknown", version, edges), call.result)
        return
    call.kind = "selection" if source is not None else "creation"
    BACKEND.record_copy(call, source, call.result)


def _trace_register(call: Call) -> None:
    """Trace connection.register(name, frame)."""
    name, value = call.argument(0, "view_name"), call.argument(1, "python_object")
    versions = referenced_frames("data", {"data": value})
    frames = BACKEND.state_of(_owner(call)).frames
    if "data" in versions and isinstance(name, str):
        frames[name] = versions["data"]


def _trace_unregister(call: Call) -> None:
    """Trace connection.unregister(name)."""
    BACKEND.state_of(_owner(call)).frames.pop(str(call.first_argument()), None)


def _trace_connect(call: Call) -> None:
    """Trace duckdb.connect(name): connections to `:memory:name` share a database."""
    name = str(call.argument(0, "database", ""))
    if name.startswith(":memory:") and name != ":memory:":
        BACKEND.share_state(call.result, BACKEND.named_state(name))
    BACKEND.state_of(call.result)


def _trace_cursor(call: Call) -> None:
    """Trace connection.cursor(): it shares the database."""
    BACKEND.share_state(call.result, BACKEND.state_of(_owner(call)))


def _recorder(call: Call, connection: Any, text: str) -> StatementRecorder:
    return StatementRecorder(call, BACKEND.name, connection, BACKEND.database(connection, text), {})


def _trace_append(call: Call) -> None:
    """Trace connection.append(table, frame)."""
    name, frame = str(call.argument(0, "table_name")), call.argument(1, "df")
    if is_frame(frame):
        recorder = _recorder(call, _owner(call), f"insert into {name}")
        recorder.append_frame(name, version_of_frame(frame), by_name=bool(call.kwargs.get("by_name")))


def _trace_appender(call: Call) -> None:
    """Trace connection.appender(table): rows are appended later."""
    BACKEND.share_state(call.result, BACKEND.state_of(_owner(call)))
    _appenders[call.result] = (_owner(call), str(call.first_argument()))


def _trace_append_row(call: Call) -> None:
    """Trace appender.append_row(values)."""
    connection, name = _appenders.get(call.receiver, (None, ""))
    if connection is not None:
        recorder = _recorder(call, connection, f"insert into {name}")
        recorder.append_values(name, statement_provenance(call, call.name))


def _trace_query_df(call: Call) -> None:
    """Trace duckdb.query_df(frame, name, text)."""
    frame, name, text = call.argument(0, "df"), call.argument(1, "virtual_table_name"), call.argument(2, "sql_query")
    if is_frame(frame) and is_frame(call.result):
        query = Query(text, {str(name): version_of_frame(frame)}, BACKEND.database(_owner(call), ""))
        BACKEND.record(call, QueryRecord.of(call.name, query, snapshot(call.result)), call.result)


_appenders: weakref.WeakKeyDictionary[Any, tuple[Any, str]] = weakref.WeakKeyDictionary()
_CONNECTION_RULES = {
    "query_df": _trace_query_df,
    "register": _trace_register,
    "unregister": _trace_unregister,
    "cursor": _trace_cursor,
    "duplicate": _trace_cursor,
    "append": _trace_append,
    "appender": _trace_appender,
}


def _trace_to_table(call: Call) -> None:
    """Trace relation.to_table(name), create_view(name) and insert_into(name)."""
    version, name = version_of_frame(call.receiver), call.first_argument()
    if isinstance(name, str):
        recorder = _recorder(call, call.receiver, f"insert into {name}")
        if call.name == "insert_into":
            recorder.append_frame(name, version, by_name=False)
        else:
            recorder.create(name, {label: version.field(label) for label in version.columns}, (version,))
    if is_frame(call.result):
        call.kind = "selection"
        BACKEND.record_copy(call, version, call.result)


def _trace_relation(call: Call) -> None:
    """Trace relation.filter(...) and other methods that return a relation."""
    if type(call.result) is type(call.receiver) and call.result is not call.receiver:
        operation = relation_record(call.name, call.receiver, call.args, call.kwargs, BACKEND.snapshot(call.result))
        BACKEND.record(call, operation, call.result)


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
        database = SourceDatabase("duckdb", lambda table: ExternalDataset("duckdb", table), {})
        return QueryRecord.of(name, Query(text, {**others, view: source}, database), output)
    versions = (source, *others.values())
    opaque = union(*[version.fields(None, TRANSFORMATION | OPAQUE) for version in versions])
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


def _is_duckdb(connection: Any) -> bool:
    return isinstance(connection, sys.modules["duckdb"].DuckDBPyConnection) if "duckdb" in sys.modules else False


def _is_relation(value: Any) -> bool:
    return isinstance(value, sys.modules["duckdb"].DuckDBPyRelation)
