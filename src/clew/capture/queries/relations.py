"""Verbs of DuckDB's relations: each says what a query would say, and is read as one."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from clew.capture.flags import OPAQUE, TRANSFORMATION
from clew.capture.foreign import version_of_frame
from clew.capture.queries.records import Query, QueryRecord
from clew.capture.records import Record, SameLabels

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.capture.versions import FrameVersion

_SAME_ROWS = frozenset(["head", "limit", "offset", "sample", "set_alias"])
_JOINS = frozenset(["inner", "left", "right", "outer", "full"])


def verb_record(
    name: str, relation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: FrameVersion
) -> Record:
    """The record of a verb: exact where its words are known, else from all columns and marked as opaque."""
    source = version_of_frame(relation)
    if name in _SAME_ROWS:
        return Record(name, "selection", output, SameLabels(source), {}, (source,))
    others = {one.alias: version_of_frame(one) for one in (*args, *kwargs.values()) if _is_relation(one)}
    text = _text_of(name, relation, args, kwargs)
    columns = list(output.columns)
    # A join may give two columns of one name, of which it cannot be said by name which is whose.
    if text is not None and len(set(columns)) == len(columns) and relation.alias not in others:
        view = args[0] if name == "query" else relation.alias
        return QueryRecord.of(name, Query(text, {**others, view: source}), output)
    everything = Query("", {**others, relation.alias: source}).guessed(TRANSFORMATION | OPAQUE)
    edges = SameLabels(source, TRANSFORMATION | OPAQUE, dict.fromkeys(columns, everything))
    return Record(name, "unknown", output, edges, {}, (source, *others.values()))


def _text_of(name: str, relation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """The query that a verb stands for; None where it has no words of its own, or was called in an unknown way."""
    write = _TEXTS.get(name)
    if write is None or (kwargs and name not in ("aggregate", "join")):
        return None
    try:
        return write(_quoted(relation.alias), *args, **kwargs)
    except (TypeError, ValueError):
        return None


def _selected(source: str, *expressions: Any) -> str:
    return _words("select", _listed(expressions), "from", source)


def _aggregated(source: str, aggr_expr: Any, group_expr: Any = "") -> str:
    return _words(_selected(source, aggr_expr), "group by", _listed([group_expr]) or "all")


def _ordered(source: str, *by: Any) -> str:
    return _words(_selected(source, "*"), "order by", _listed(by))


def _joined(source: str, other_rel: Any, condition: Any, how: str = "inner") -> str:
    if how.lower() not in _JOINS:
        msg = f"{how} joins are not read"
        raise ValueError(msg)
    words = _listed([condition])
    is_shared = re.fullmatch(r"[\w\s,\"]+", words) is not None
    met = ("using (", words, ")") if is_shared else ("on", words)
    return _words(_selected(source, "*"), how, "join", _quoted(other_rel.alias), *met)


_TEXTS: dict[str, Callable[..., str]] = {
    "filter": lambda source, condition: _words(_selected(source, "*"), "where", _listed([condition])),
    "project": _selected,
    "select": _selected,
    "aggregate": _aggregated,
    "order": _ordered,
    "sort": _ordered,
    "distinct": lambda source: _selected(source, "distinct *"),
    "unique": lambda source, columns: _selected(source, _words("distinct", _listed([columns]))),
    "union": lambda source, other: _words(_selected(source, "*"), "union all", _selected(_quoted(other.alias), "*")),
    "join": _joined,
    "query": lambda _, __, text: str(text),
}


def _words(*parts: str) -> str:
    return " ".join(parts)


def _listed(expressions: Any) -> str:
    """Expressions as they are written; DuckDB's own objects write themselves."""
    parts = [part for one in expressions for part in (one if isinstance(one, (list, tuple)) else [one])]
    return ", ".join(map(str, parts))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_relation(value: Any) -> bool:
    return isinstance(value, sys.modules["duckdb"].DuckDBPyRelation)
