"""Looking on at DuckDB and at `mo.sql`."""

from __future__ import annotations

import functools
import re
import sys
import time
import weakref
from collections import ChainMap
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.capture.datasets import FileDataset, located_at
from clew.capture.flags import IDENTITY
from clew.capture.foreign import described, is_frame, known_version, remembered, tell, version_of_frame
from clew.capture.guard import guard
from clew.capture.losses import count_loss
from clew.capture.queries.files import READS, WRITES, read_record, write_record
from clew.capture.queries.records import Query, QueryRecord, tables_named_in
from clew.capture.queries.relations import verb_record
from clew.capture.records import Record, SameLabels
from clew.capture.versions import STATE
from clew.capture.written import outside, remember_written

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

_installed: list[tuple[Any, str, Any]] = []
_QUERIES = ("sql", "query", "from_query")
_FETCHES = ("df", "to_df", "fetchdf", "fetch_df", "pl")
# DuckDB finds frames among the variables of the Python frame that calls it: it is called from one that has the user's.
_CALL = compile("_clew_call()", "<clew>", "eval")
_MAKES = re.compile(
    r"^\s*create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?(?:table|view)\s+(?:if\s+not\s+exists\s+)?([\w.\"]+)\s+as\s+(.*)$",
    re.IGNORECASE | re.DOTALL,
)
_COPIES = re.compile(r"^\s*copy\s*\((.*)\)\s*to\s*'([^']+)'", re.IGNORECASE | re.DOTALL)
# What a connection ran last, until it is fetched.
_last: weakref.WeakKeyDictionary[Any, tuple[Query, float]] = weakref.WeakKeyDictionary()


class Hook(NamedTuple):
    """A function or a method that is looked on at."""

    name: str
    original: Any
    is_method: bool

    def split(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """The connection, if there is one, and the other arguments."""
        return (args[0], args[1:]) if self.is_method else (None, args)


def hook_duckdb() -> None:
    """See queries of DuckDB's module and connections, and the frames that are made of their results."""
    duckdb = sys.modules["duckdb"]
    connection, relation = duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation
    for owner in (duckdb, connection):
        for name in _QUERIES:
            _put(owner, name, _querying)
        _put(owner, "execute", _executing)
        _put(owner, "from_df", _taking)
        for name in READS:
            _put(owner, name, _opening)
    for owner in (connection, relation):
        for name in _FETCHES:
            _put(owner, name, _fetching)
    for name in WRITES:
        _put(relation, name, _writing)
    for name in dir(relation):
        if not name.startswith("_") and name not in _FETCHES and callable(getattr(relation, name)):
            _put(relation, name, _deriving)


def hook_marimo() -> None:
    """See `mo.sql`, which is what a SQL cell calls."""
    for module in ("marimo", "marimo._sql.sql"):
        if module in sys.modules:
            _put(sys.modules[module], "sql", _asking)


def remove_hooks() -> None:
    """Take every wrapper out again."""
    while _installed:
        owner, name, original = _installed.pop()
        setattr(owner, name, original)


def _put(owner: Any, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name, None)
    if original is None or hasattr(original, STATE):
        return
    hook = Hook(name, original, isinstance(owner, type))

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            return _called(original, args, kwargs, sys._getframe(1))
        return around(hook, args, kwargs, sys._getframe(1))

    setattr(wrapper, STATE, around)
    _installed.append((owner, name, original))
    setattr(owner, name, wrapper)


def _querying(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """duckdb.sql(text): the relation is a frame whose rows are not there yet."""
    started = time.perf_counter()
    query = _guarded(_query, *hook.split(args), kwargs, frame)
    result = _called(hook.original, args, kwargs, frame)
    if query is not None and not _guarded(_wrote, hook.name, query, frame, started) and result is not None:
        _guarded(_made, hook.name, query, result, frame, started)
    return result


def _executing(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """connection.execute(text): what is fetched afterwards is its result."""
    started = time.perf_counter()
    query = _guarded(_query, *hook.split(args), kwargs, frame)
    result = _called(hook.original, args, kwargs, frame)
    if query is not None:
        _last[result] = (query, started)
        _guarded(_wrote, hook.name, query, frame, started)
    return result


def _fetching(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """relation.df(), connection.execute(text).df(): the rows become a frame."""
    started = time.perf_counter()
    result = _called(hook.original, args, kwargs, frame)
    if is_frame(result):
        _guarded(_fetched, hook.name, args[0], result, frame, started)
    return result


def _taking(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """duckdb.from_df(frame): a relation over a frame."""
    started = time.perf_counter()
    result = _called(hook.original, args, kwargs, frame)
    given = [one for one in (*args, *kwargs.values()) if is_frame(one)]
    if len(given) == 1:
        _guarded(_taken, hook.name, given[0], result, frame, started)
    return result


def _opening(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """duckdb.read_csv(path): a relation over a file."""
    started = time.perf_counter()
    result = _called(hook.original, args, kwargs, frame)
    _guarded(_opened, hook.name, _first(hook.split(args)[1], kwargs), result, frame, started)
    return result


def _writing(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """relation.write_parquet(path): the rows of a relation become a file."""
    started = time.perf_counter()
    result = _called(hook.original, args, kwargs, frame)
    _guarded(_written, hook.name, args[0], _first(args[1:], kwargs), frame, started)
    return result


def _first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0] if args else next(iter(kwargs.values()), None)


def _deriving(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """relation.filter(...) and the other verbs: a relation made of another."""
    started = time.perf_counter()
    result = _called(hook.original, args, kwargs, frame)
    if type(result) is type(args[0]) and result is not args[0]:
        _guarded(_derived, hook.name, args, kwargs, result, frame, started)
    return result


def _asking(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """mo.sql(text): one operation, whatever marimo does to show its result."""
    started = time.perf_counter()
    query = _guarded(_query, kwargs.get("engine"), args, kwargs, frame)
    guard.depth = 1
    try:
        result = hook.original(*args, **kwargs)
    finally:
        guard.depth = 0
    if query is not None and not _guarded(_wrote, hook.name, query, frame, started) and is_frame(result):
        _guarded(_made, hook.name, query, result, frame, started)
    return result


def _called(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    call = functools.partial(original, *args, **kwargs)
    depth, guard.depth = guard.depth, 1
    try:
        return eval(_CALL, frame.f_globals, {**frame.f_locals, "_clew_call": call})  # noqa: S307 - our own constant
    finally:
        guard.depth = depth


def _guarded(action: Callable[..., Any], *arguments: Any) -> Any:
    guard.depth = 1
    try:
        return action(*arguments)
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        count_loss("query", error)
        return None
    finally:
        guard.depth = 0


def _query(connection: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Query | None:
    text = args[0] if args else kwargs.get("query")
    if not isinstance(text, str):
        return None
    names = ChainMap(dict(frame.f_locals), frame.f_globals)
    return Query(text, tables_named_in(text, names), _database(connection))


def _database(connection: Any) -> str:
    """The file of a connection's database."""
    execute = getattr(type(connection), "execute", None)
    if execute is None or "duckdb" not in type(connection).__module__:
        return ":memory:"
    rows = execute(connection.cursor(), "select path from duckdb_databases() where not internal").fetchall()
    return next((row[0] for row in rows if row[0]), ":memory:")


def _placed(frame: FrameType, started: float) -> tuple[CodeType, int, float, float]:
    return frame.f_code, frame.f_lasti, started, time.perf_counter() - started


def _made(name: str, query: Query, result: Any, frame: FrameType, started: float) -> None:
    version = described(result)
    tell(QueryRecord.of(name, query, version), *_placed(frame, started))
    remembered(result, version)


def _taken(name: str, source: Any, result: Any, frame: FrameType, started: float) -> None:
    version, behind = described(result), version_of_frame(source)
    tell(Record(name, "selection", version, SameLabels(behind), {}, (behind,)), *_placed(frame, started))
    remembered(result, version)


def _opened(name: str, source: Any, result: Any, frame: FrameType, started: float) -> None:
    version = described(result)
    entry = read_record(name, source, version)
    if entry is not None:
        tell(entry, *_placed(frame, started))
        remembered(result, version)


def _written(name: str, relation: Any, target: Any, frame: FrameType, started: float) -> None:
    entry = write_record(name, relation, target)
    if entry is not None:
        tell(entry, *_placed(frame, started))


def _derived(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, frame: FrameType, started: float
) -> None:
    version = described(result)
    tell(verb_record(name, args[0], args[1:], kwargs, version), *_placed(frame, started))
    remembered(result, version)


def _fetched(name: str, source: Any, result: Any, frame: FrameType, started: float) -> None:
    version = described(result)
    behind = known_version(source)
    if behind is not None:
        # Of two columns of one name, the second is called otherwise in a frame.
        renamed = {
            after: behind.field(before)
            for before, after in zip(behind.columns, version.columns, strict=False)
            if before != after
        }
        edges = SameLabels(behind, IDENTITY, renamed)
        tell(Record(name, "selection", version, edges, {}, (behind,)), *_placed(frame, started))
    elif source in _last:
        query, begun = _last[source]
        tell(QueryRecord.of("execute", query, version), *_placed(frame, begun))
    else:
        return
    remembered(result, version)


def _wrote(name: str, query: Query, frame: FrameType, started: float) -> bool:
    """CREATE TABLE ... AS, COPY ... TO: what the query gives is a table or a file from now on."""
    makes, copies = _MAKES.match(query.text), _COPIES.match(query.text)
    if makes is not None:
        table = makes[1].replace('"', "")
        dataset: FileDataset | None = query.table_dataset(table)
        text = makes[2]
    elif copies is not None:
        dataset, text = located_at(copies[2]), copies[1]
    else:
        return False
    inner = query.within(text)
    if dataset is None or inner.reading is None:
        return False
    written = outside(dataset)
    written.columns = list(inner.reading.columns)
    tell(QueryRecord.of(name, inner, written), *_placed(frame, started))
    remember_written(written)
    return True
