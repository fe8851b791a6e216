"""Patches of DuckDB and `mo.sql`."""

from __future__ import annotations

import functools
import re
import sys
import weakref
from collections import ChainMap
from typing import TYPE_CHECKING, Any, ClassVar

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
    version_of_frame,
)
from clew.capture.backends.duckdb.query import Query, QueryRecord, referenced_frames, relation_record
from clew.capture.introspection.user_code import guard, tracing_suppressed
from clew.capture.lineage.datasets import ExternalDataset, dataset_at
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.operations import (
    IdentityEdges,
    OperationRecord,
    external_version,
    record_written,
)
from clew.capture.lineage.transformations import IDENTITY

if TYPE_CHECKING:
    from types import FrameType

_QUERY_FUNCTIONS = ("sql", "query", "from_query")
_FETCH_METHODS = ("df", "to_df", "fetchdf", "fetch_df", "pl")
_READ_FUNCTIONS = ("read_csv", "read_parquet", "read_json", "from_csv_auto", "from_parquet")
_WRITE_METHODS = ("write_csv", "to_csv", "write_parquet", "to_parquet")
_MARIMO_MODULES = ("marimo", "marimo._sql.sql")
# DuckDB looks up frames among the variables of the calling Python frame, so it is called with the user's variables.
_CALL_CODE = compile("_clew_call()", "<clew>", "eval")
_CREATE_AS = re.compile(
    r"^\s*create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?(?:table|view)\s+(?:if\s+not\s+exists\s+)?([\w.\"]+)\s+as\s+(.*)$",
    re.IGNORECASE | re.DOTALL,
)
_COPY_TO = re.compile(r"^\s*copy\s*\((.*)\)\s*to\s*'([^']+)'", re.IGNORECASE | re.DOTALL)
# The last query of a connection and its start, until its result is fetched.
_last_queries: weakref.WeakKeyDictionary[Any, tuple[Query, float]] = weakref.WeakKeyDictionary()


class DuckDBBackend(Backend):
    """Capture of DuckDB relations and queries."""

    name: ClassVar[str] = "duckdb"

    def __init__(self) -> None:
        self._patches = Patcher(self.name)
        self._marimo_patches = Patcher("marimo", self.name)
        # Relations are extension objects without attributes: their versions are stored here for their lifetime.
        self._versions: dict[int, tuple[weakref.ref[Any], FrameVersion]] = {}

    def install(self) -> None:
        """Patch queries of the module and of connections, relations and their results."""
        duckdb = self.module
        connection, relation = duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation
        for owner in (duckdb, connection):
            for name in _QUERY_FUNCTIONS:
                self._patch(owner, name, _trace_query, _prepare_query)
            self._patch(owner, "execute", _trace_execute, _prepare_query)
            self._patch(owner, "from_df", _trace_from_df)
            for name in _READ_FUNCTIONS:
                self._patch(owner, name, self.record_read)
        for owner in (connection, relation):
            for name in _FETCH_METHODS:
                self._patch(owner, name, _trace_fetch)
        for name in _WRITE_METHODS:
            self._patch(relation, name, self.record_write)
        for name in dir(relation):
            if not name.startswith("_") and callable(getattr(relation, name)):
                self._patch(relation, name, _trace_relation)

    def install_in_marimo(self) -> None:
        """Patch `mo.sql`, which SQL cells call; one operation, without the queries that display its result."""
        for name in _MARIMO_MODULES:
            if hasattr(sys.modules.get(name), "sql"):
                self._marimo_patches.function(
                    sys.modules[name], "sql", Tracing(_trace_query, prepare=_prepare_marimo_query)
                )

    def uninstall(self) -> None:
        """Remove all patches."""
        self._patches.remove()
        self._marimo_patches.remove()

    def _patch(self, owner: Any, name: str, rule: Rule, prepare: Prepare | None = None) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        patch = Patch(original, name, Tracing(rule, prepare=prepare), is_function=not isinstance(owner, type))
        trace = self._patches.trace

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            if guard.depth:
                return _call_in_scope(original, frame, *args, **kwargs)
            in_scope = functools.partial(_call_in_scope, original, frame)
            return trace(patch._replace(original=in_scope), args, kwargs, frame)

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


BACKEND = DuckDBBackend()


def _call_in_scope(original: Any, frame: FrameType, /, *args: Any, **kwargs: Any) -> Any:
    call = functools.partial(original, *args, **kwargs)
    with tracing_suppressed():
        return eval(_CALL_CODE, frame.f_globals, {**frame.f_locals, "_clew_call": call})  # noqa: S307 - a constant expression


def _prepare_query(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Set the query of a call as its state, with the versions of the frames that it reads."""
    call.pre_state = _query(call, call.receiver)
    return call.args, call.kwargs


def _prepare_marimo_query(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Do the same for `mo.sql(text, engine=connection)`."""
    call.pre_state = _query(call, call.kwargs.get("engine"))
    return call.args, call.kwargs


def _query(call: Call, connection: Any) -> Query | None:
    text = call.argument(0, "query")
    if not isinstance(text, str):
        return None
    names = ChainMap(dict(call.caller.f_locals), call.caller.f_globals)
    return Query(text, referenced_frames(text, names), _database(connection))


def _database(connection: Any) -> str:
    """Return the database file of a connection."""
    execute = getattr(type(connection), "execute", None)
    if execute is None or "duckdb" not in type(connection).__module__:
        return ":memory:"
    rows = execute(connection.cursor(), "select path from duckdb_databases() where not internal").fetchall()
    return next((row[0] for row in rows if row[0]), ":memory:")


def _trace_query(call: Call) -> None:
    """Trace duckdb.sql(text), which returns a lazy relation, and mo.sql(text)."""
    query: Query | None = call.pre_state
    if query is not None and not _record_created_table(call, query) and is_frame(call.result):
        BACKEND.record(call, QueryRecord.of(call.name, query, snapshot(call.result)), call.result)


def _trace_execute(call: Call) -> None:
    """Trace connection.execute(text); its result is fetched later."""
    query: Query | None = call.pre_state
    if query is not None:
        _last_queries[call.result] = (query, call.started)
        _record_created_table(call, query)


def _record_created_table(call: Call, query: Query) -> bool:
    """Record CREATE TABLE ... AS and COPY ... TO; return whether the query is one of them."""
    create_match, copy_match = _CREATE_AS.match(query.text), _COPY_TO.match(query.text)
    if create_match is not None:
        table = create_match[1].replace('"', "")
        dataset: ExternalDataset | None = query.table_dataset(table)
        text = create_match[2]
    elif copy_match is not None:
        dataset, text = dataset_at(copy_match[2]), copy_match[1]
    else:
        return False
    inner = query.subquery(text)
    if dataset is None or inner.lineage is None:
        return False
    written = external_version(dataset)
    written.columns = list(inner.lineage.columns)
    BACKEND.record(call, QueryRecord.of(call.name, inner, written))
    record_written(written)
    return True


def _trace_fetch(call: Call) -> None:
    """Trace relation.df() and connection.execute(text).df()."""
    source, result = call.receiver, call.result
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


def _trace_from_df(call: Call) -> None:
    """Trace duckdb.from_df(frame)."""
    frames = [value for value in call.values() if is_frame(value)]
    if len(frames) == 1:
        call.kind = "selection"
        BACKEND.record_copy(call, version_of_frame(frames[0]), call.result)


def _trace_relation(call: Call) -> None:
    """Trace relation.filter(...) and other methods that return a relation."""
    if type(call.result) is type(call.receiver) and call.result is not call.receiver:
        operation = relation_record(call.name, call.receiver, call.args, call.kwargs, BACKEND.snapshot(call.result))
        BACKEND.record(call, operation, call.result)
