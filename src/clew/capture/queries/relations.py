"""Methods of DuckDB relations, translated to SQL and parsed as queries."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from clew.capture.flags import OPAQUE, TRANSFORMATION
from clew.capture.foreign import version_of_frame
from clew.capture.queries.records import Query, QueryRecord
from clew.capture.records import IdentityEdges, OperationRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.capture.versions import FrameVersion

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
