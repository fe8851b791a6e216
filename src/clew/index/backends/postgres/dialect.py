"""Translation of the index's SQL from SQLite to PostgreSQL: a table of all differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import count
from typing import TypeAlias

_Rules: TypeAlias = Mapping[re.Pattern[str], str | Callable[[re.Match[str]], str]]


def _nulls_first(index: re.Match[str]) -> str:
    return f"{index[1]}({', '.join(f'{column} nulls first' for column in index[2].split(', '))})"


_SCHEMA_RULES: _Rules = {
    re.compile(r"\binteger\b"): "bigint",
    re.compile(r"\breal\b"): "double precision",
    re.compile(r"\bblob\b"): "bytea",
    # Strings are compared byte by byte, as in SQLite.
    re.compile(r"\btext\b"): 'text collate "C"',
    re.compile(r" without rowid\b"): "",
    re.compile(r"\bcreate view if not exists\b"): "create or replace view",
    # Nulls sort first in SQLite and last in PostgreSQL.
    re.compile(r"(create index if not exists \w+ on \w+ )\(([^)]*)\)"): _nulls_first,
    re.compile(r"json_group_array\(json_object\('(\w+)', (\w+), '(\w+)', (\w+)\)\)"): r"""'[' || coalesce(string_agg(
    '{"\1":' || to_json(\2) || ',"\3":' || to_json(\4) || '}', ','), '') || ']'""",
}
_QUERY_RULES: _Rules = {
    # In SQLite `cross join` fixes the join order; in PostgreSQL it has no condition and the planner chooses the order.
    re.compile(r"\bcross join\b"): "join",
    # A list as a JSON parameter, without NUL, which PostgreSQL does not allow. The planner estimates a hundred rows for
    # any list and scans whole tables. With a limit that is unknown at planning time it estimates ten and uses an index.
    re.compile(r"\bjson_each\((\?\d*)\)"): r"""(select value, value #>> '{}' as atom
    from json_array_elements(replace(\1, '\\u0000', '\\ufffd')::json) value
    limit (select 2147483647))""",
    # A member of an item, by its path: in SQLite `value ->>` raises for an item that is a string.
    re.compile(r"\b[\w.]+ ->> \(field\.fullkey \|\| '\.(\w+)'\)"): r"field.value ->> '\1'",
    # LIKE of SQLite ignores the case of ASCII letters only, as ILIKE does with this collation.
    re.compile(r"\blike (?=\?)"): 'collate "C" ilike ',
    re.compile(r"\bgroup_concat(?=\()"): "string_agg",
    re.compile(r"\btotal(?=\()"): "sum",
    re.compile(r"\bchar(?=\()"): "chr",
}
_COMMON_RULES: _Rules = {re.compile(r"\bdesc\b"): "desc nulls last"}
_PARAMETER = re.compile(r"\?(\d*)")


def schema_to_postgres(schema: str) -> str:
    """Translate `schema.sql`."""
    return _translate(schema, _SCHEMA_RULES)


@lru_cache(maxsize=1024)
def to_postgres(statement: str) -> str:
    """Translate a statement; its parameters become `$1` and so on."""
    numbers = count(1)
    return _PARAMETER.sub(lambda match: f"${match[1] or next(numbers)}", _translate(statement, _QUERY_RULES))


def _translate(sql: str, rules: _Rules) -> str:
    for pattern, replacement in (*rules.items(), *_COMMON_RULES.items()):
        sql = pattern.sub(replacement, sql)
    return sql
