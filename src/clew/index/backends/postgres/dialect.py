"""Translation of the index's SQL from SQLite to PostgreSQL."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import count

_TYPES = {"integer": "bigint", "real": "double precision", "blob": "bytea", "text": 'text collate "C"'}
_TYPE = re.compile(rf"\b({'|'.join(_TYPES)})\b")
_WITHOUT_ROWID = re.compile(r" without rowid\b")
_VIEW = "create view if not exists", "create or replace view"
_INDEX = re.compile(r"(create index if not exists \w+ on \w+ )\(([^)]*)\)")

_FUNCTIONS = {"group_concat": "string_agg", "total": "sum", "char": "chr"}
_FUNCTION = re.compile(rf"\b({'|'.join(_FUNCTIONS)})(?=\()")
_JSON_OBJECTS = re.compile(r"json_group_array\(json_object\('(\w+)', (\w+), '(\w+)', (\w+)\)\)")
_JSON_JSON_OBJECTS_SQL = r"""'[' || coalesce(string_agg(
    '{"\1":' || to_json(\2) || ',"\3":' || to_json(\4) || '}', ','), '') || ']'"""
# With a single max(), SQLite returns the other columns of the row with the maximum.
_ROW_OF_MAX = re.compile(r"\Aselect ([^()]*), max\((\w+)\) from (.*)\sgroup by (.*)\Z", re.DOTALL)
_ROW_OF_MAX_SQL = r"select distinct on (\4) \1, \2 from \3 order by \4, \2 desc"
# PostgreSQL allows only one self-reference in a recursive query.
_ALIASES_CTE = re.compile(
    r"with recursive names \(namespace, name\) as \(.*?\(names\.namespace, names\.name\)\)", re.DOTALL
)
_ALIASES_CTE_SQL = """with recursive names (namespace, name) as (
    select ?1::text collate "C", ?2::text collate "C" union
    select other.namespace, other.name from names cross join lateral (
        select other.namespace, other.name from dataset_aliases own
        join dataset_aliases other using (canonical_namespace, canonical_name)
        where (own.namespace, own.name) = (names.namespace, names.name)
        union all select renames.namespace, renames.name from renames
        where (to_namespace, to_name) = (names.namespace, names.name)
    ) other)"""
# In SQLite `cross join` fixes the join order; in PostgreSQL it has no condition and the planner chooses the order.
_CROSS_JOIN = re.compile(r"\bcross join (?!lateral)")
# A list as a JSON parameter, without NUL, which PostgreSQL does not allow. The planner estimates a hundred rows for any
# list and scans whole tables. With a limit that is unknown at planning time it estimates ten and uses an index.
_JSON_LIST = re.compile(r"\bjson_each\((\?\d*)\)")
_JSON_LIST_SQL = r"""(select value, value #>> '{}' as atom
    from json_array_elements(replace(\1, '\\u0000', '\\ufffd')::json) value
    limit (select 2147483647))"""
# LIKE of SQLite ignores the case of ASCII letters only, as ILIKE does with this collation.
_LIKE = re.compile(r"\blike (?=\?)")
_LIKE_SQL = 'collate "C" ilike '
# Nulls sort first in SQLite and last in PostgreSQL.
_DESCENDING = re.compile(r"\bdesc\b")
_PARAMETER = re.compile(r"\?(\d*)")
_REWRITES = (
    (_ROW_OF_MAX, _ROW_OF_MAX_SQL),
    (_CROSS_JOIN, "join "),
    (_ALIASES_CTE, _ALIASES_CTE_SQL),
    (_JSON_LIST, _JSON_LIST_SQL),
    (_LIKE, _LIKE_SQL),
)


def schema_to_postgres(schema: str) -> str:
    """Translate `schema.sql`. Strings are compared byte by byte, as in SQLite."""
    typed = _TYPE.sub(lambda match: _TYPES[match[1]], _WITHOUT_ROWID.sub("", schema))
    return _translate_expressions(_INDEX.sub(_with_nulls_first, typed.replace(*_VIEW)))


@lru_cache(maxsize=1024)
def to_postgres(statement: str) -> str:
    """Translate a statement; its parameters become `$1` and so on."""
    numbers = count(1)
    sql = statement
    for pattern, replacement in _REWRITES:
        sql = pattern.sub(replacement, sql)
    return _PARAMETER.sub(lambda match: f"${match[1] or next(numbers)}", _translate_expressions(sql))


def _translate_expressions(sql: str) -> str:
    ordered = _DESCENDING.sub("desc nulls last", sql)
    return _FUNCTION.sub(lambda match: _FUNCTIONS[match[1]], _JSON_OBJECTS.sub(_JSON_JSON_OBJECTS_SQL, ordered))


def _with_nulls_first(index: re.Match[str]) -> str:
    """Create an index with nulls first, as in SQLite."""
    return f"{index[1]}({', '.join(f'{column} nulls first' for column in index[2].split(', '))})"
