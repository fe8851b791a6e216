"""Patches of DuckDB and `mo.sql`."""

from __future__ import annotations

import functools
import re
import sys
import time
import weakref
from collections import ChainMap
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.capture.backends.base import (
    attach_version,
    attached_version,
    describe_frame,
    is_frame,
    record_operation,
    version_of_frame,
)
from clew.capture.backends.duckdb.query import (
    READ_FUNCTIONS,
    WRITE_METHODS,
    Query,
    QueryRecord,
    read_record,
    referenced_frames,
    relation_record,
    write_record,
)
from clew.capture.diagnostics import record_error
from clew.capture.introspection.user_code import guard
from clew.capture.lineage.datasets import ExternalDataset, dataset_at
from clew.capture.lineage.frame_version import STATE_ATTR
from clew.capture.lineage.operations import IdentityEdges, OperationRecord, external_version, record_written
from clew.capture.lineage.transformations import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

_installed: list[tuple[Any, str, Any]] = []
_QUERY_FUNCTIONS = ("sql", "query", "from_query")
_FETCH_METHODS = ("df", "to_df", "fetchdf", "fetch_df", "pl")
# DuckDB looks up frames among the variables of the calling Python frame, so it is called with the user's variables.
_CALL_CODE = compile("_clew_call()", "<clew>", "eval")
_CREATE_AS = re.compile(
    r"^\s*create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?(?:table|view)\s+(?:if\s+not\s+exists\s+)?([\w.\"]+)\s+as\s+(.*)$",
    re.IGNORECASE | re.DOTALL,
)
_COPY_TO = re.compile(r"^\s*copy\s*\((.*)\)\s*to\s*'([^']+)'", re.IGNORECASE | re.DOTALL)
# The last query of a connection, until its result is fetched.
_last_queries: weakref.WeakKeyDictionary[Any, tuple[Query, float]] = weakref.WeakKeyDictionary()


class Patch(NamedTuple):
    """A patched function or method."""

    name: str
    original: Any
    is_method: bool

    def split(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Split the arguments into the connection, if any, and the others."""
        return (args[0], args[1:]) if self.is_method else (None, args)


def patch_duckdb() -> None:
    """Patch queries of DuckDB's module and connections, relations and their results."""
    duckdb = sys.modules["duckdb"]
    connection, relation = duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation
    for owner in (duckdb, connection):
        for name in _QUERY_FUNCTIONS:
            _patch(owner, name, _trace_sql)
        _patch(owner, "execute", _trace_execute)
        _patch(owner, "from_df", _trace_from_df)
        for name in READ_FUNCTIONS:
            _patch(owner, name, _trace_read)
    for owner in (connection, relation):
        for name in _FETCH_METHODS:
            _patch(owner, name, _trace_fetch)
    for name in WRITE_METHODS:
        _patch(relation, name, _trace_write)
    for name in dir(relation):
        if not name.startswith("_") and name not in _FETCH_METHODS and callable(getattr(relation, name)):
            _patch(relation, name, _trace_relation)


def patch_marimo() -> None:
    """Patch `mo.sql`, which SQL cells call."""
    for module in ("marimo", "marimo._sql.sql"):
        if module in sys.modules:
            _patch(sys.modules[module], "sql", _trace_mo_sql)


def remove_patches() -> None:
    """Remove all patches."""
    while _installed:
        owner, name, original = _installed.pop()
        setattr(owner, name, original)


def _patch(owner: Any, name: str, trace: Callable[..., Any]) -> None:
    original = getattr(owner, name, None)
    if original is None or hasattr(original, STATE_ATTR):
        return
    hook = Patch(name, original, isinstance(owner, type))

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            return _call_in_scope(original, args, kwargs, sys._getframe(1))
        return trace(hook, args, kwargs, sys._getframe(1))

    setattr(wrapper, STATE_ATTR, trace)
    _installed.append((owner, name, original))
    setattr(owner, name, wrapper)


def _trace_sql(hook: Patch, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """Trace duckdb.sql(text), which returns a lazy relation."""
    started = time.perf_counter()
    query = _call_safely(_query, *hook.split(args), kwargs, frame)
    result = _call_in_scope(hook.original, args, kwargs, frame)
    if (
        query is not None
        and not _call_safely(_record_created_table, hook.name, query, frame, started)
        and result is not None
    ):
        _call_safely(_record_query, hook.name, query, result, frame, started)
    return result


def _trace_execute(hook: Patch, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """Trace connection.execute(text); its result is fetched later."""
    started = time.perf_counter()
    query = _call_safely(_query, *hook.split(args), kwargs, frame)
    result = _call_in_scope(hook.original, args, kwargs, frame)
    if query is not None:
        _last_queries[result] = (query, started)
        _call_safely(_record_created_table, hook.name, query, frame, started)
    return result


def _trace_fetch(hook: Patch, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """Trace relation.df() and connection.execute(text).df()."""
    started = time.perf_counter()
    result = _call_in_scope(hook.original, args, kwargs, frame)
    if is_frame(result):
        _call_safely(_record_fetch, hook.name, args[0], result, frame, started)
    return result


def _trace_from_df(hook: Patch, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """Trace duckdb.from_df(frame)."""
    started = time.perf_counter()
    result = _call_in_scope(hook.original, args, kwargs, frame)
    frames = [value for value in (*args, *kwargs.values()) if is_frame(value)]
    if len(frames) == 1:
        _call_safely(_record_from_df, hook.name, frames[0], result, frame, started)
    return result


def _trace_read(hook: Patch, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """Trace duckdb.read_csv(path) and similar functions."""
    started = time.perf_counter()
    result = _call_in_scope(hook.original, args, kwargs, frame)
    _call_safely(_record_read, hook.name, _first_argument(hook.split(args)[1], kwargs), result, frame, started)
    return result


def _trace_write(hook: Patch, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """Trace relation.write_parquet(path) and similar methods."""
    started = time.perf_counter()
    result = _call_in_scope(hook.original, args, kwargs, frame)
    _call_safely(_record_write, hook.name, args[0], _first_argument(args[1:], kwargs), frame, started)
    return result


def _first_argument(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0] if args else next(iter(kwargs.values()), None)


def _trace_relation(hook: Patch, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """Trace relation.filter(...) and other methods that return a relation."""
    started = time.perf_counter()
    result = _call_in_scope(hook.original, args, kwargs, frame)
    if type(result) is type(args[0]) and result is not args[0]:
        _call_safely(_record_relation, hook.name, args, kwargs, result, frame, started)
    return result


def _trace_mo_sql(hook: Patch, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """Trace mo.sql(text) as one operation, without the queries marimo runs to display its result."""
    started = time.perf_counter()
    query = _call_safely(_query, kwargs.get("engine"), args, kwargs, frame)
    guard.depth = 1
    try:
        result = hook.original(*args, **kwargs)
    finally:
        guard.depth = 0
    if (
        query is not None
        and not _call_safely(_record_created_table, hook.name, query, frame, started)
        and is_frame(result)
    ):
        _call_safely(_record_query, hook.name, query, result, frame, started)
    return result


def _call_in_scope(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    call = functools.partial(original, *args, **kwargs)
    depth, guard.depth = guard.depth, 1
    try:
        return eval(_CALL_CODE, frame.f_globals, {**frame.f_locals, "_clew_call": call})  # noqa: S307 - a constant expression
    finally:
        guard.depth = depth


def _call_safely(action: Callable[..., Any], *arguments: Any) -> Any:
    guard.depth = 1
    try:
        return action(*arguments)
    except Exception as error:  # noqa: BLE001 - capture must never change the user's call
        record_error("query", error)
        return None
    finally:
        guard.depth = 0


def _query(connection: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Query | None:
    text = args[0] if args else kwargs.get("query")
    if not isinstance(text, str):
        return None
    names = ChainMap(dict(frame.f_locals), frame.f_globals)
    return Query(text, referenced_frames(text, names), _database(connection))


def _database(connection: Any) -> str:
    """Return the database file of a connection."""
    execute = getattr(type(connection), "execute", None)
    if execute is None or "duckdb" not in type(connection).__module__:
        return ":memory:"
    rows = execute(connection.cursor(), "select path from duckdb_databases() where not internal").fetchall()
    return next((row[0] for row in rows if row[0]), ":memory:")


def _location(frame: FrameType, started: float) -> tuple[CodeType, int, float, float]:
    return frame.f_code, frame.f_lasti, started, time.perf_counter() - started


def _record_query(name: str, query: Query, result: Any, frame: FrameType, started: float) -> None:
    version = describe_frame(result)
    record_operation(QueryRecord.of(name, query, version), "duckdb", *_location(frame, started))
    attach_version(result, version)


def _record_from_df(name: str, source: Any, result: Any, frame: FrameType, started: float) -> None:
    version, source_version = describe_frame(result), version_of_frame(source)
    record_operation(
        OperationRecord(name, "selection", version, IdentityEdges(source_version), {}, (source_version,)),
        "duckdb",
        *_location(frame, started),
    )
    attach_version(result, version)


def _record_read(name: str, source: Any, result: Any, frame: FrameType, started: float) -> None:
    version = describe_frame(result)
    entry = read_record(name, source, version)
    if entry is not None:
        record_operation(entry, "duckdb", *_location(frame, started))
        attach_version(result, version)


def _record_write(name: str, relation: Any, target: Any, frame: FrameType, started: float) -> None:
    entry = write_record(name, relation, target)
    if entry is not None:
        record_operation(entry, "duckdb", *_location(frame, started))


def _record_relation(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, frame: FrameType, started: float
) -> None:
    version = describe_frame(result)
    record_operation(relation_record(name, args[0], args[1:], kwargs, version), "duckdb", *_location(frame, started))
    attach_version(result, version)


def _record_fetch(name: str, source: Any, result: Any, frame: FrameType, started: float) -> None:
    version = describe_frame(result)
    source_version = attached_version(source)
    if source_version is not None:
        # The second of two columns with the same name is renamed in a frame.
        renamed = {
            after: source_version.field(before)
            for before, after in zip(source_version.columns, version.columns, strict=False)
            if before != after
        }
        edges = IdentityEdges(source_version, IDENTITY, renamed)
        record_operation(
            OperationRecord(name, "selection", version, edges, {}, (source_version,)),
            "duckdb",
            *_location(frame, started),
        )
    elif source in _last_queries:
        query, query_started = _last_queries[source]
        record_operation(QueryRecord.of("execute", query, version), "duckdb", *_location(frame, query_started))
    else:
        return
    attach_version(result, version)


def _record_created_table(name: str, query: Query, frame: FrameType, started: float) -> bool:
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
    record_operation(QueryRecord.of(name, inner, written), "duckdb", *_location(frame, started))
    record_written(written)
    return True
