"""The SQL of the index, which is written as SQLite knows it, in PostgreSQL's words."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import count

_TYPES = {"integer": "bigint", "real": "double precision", "blob": "bytea", "text": 'text collate "C"'}
_TYPE = re.compile(rf"\b({'|'.join(_TYPES)})\b")
_WITHOUT = re.compile(r" without rowid\b")
_VIEW = "create view if not exists", "create or replace view"
_INDEX = re.compile(r"(create index if not exists \w+ on \w+ )\(([^)]*)\)")

_FUNCTIONS = {"group_concat": "string_agg", "total": "sum", "char": "chr"}
_FUNCTION = re.compile(rf"\b({'|'.join(_FUNCTIONS)})(?=\()")
_OBJECTS = re.compile(r"json_group_array\(json_object\('(\w+)', (\w+), '(\w+)', (\w+)\)\)")
_OBJECTS_JOINED = r"""'[' || coalesce(string_agg(
    '{"\1":' || to_json(\2) || ',"\3":' || to_json(\4) || '}', ','), '') || ']'"""
# Beside a single max(), SQLite gives the other values of the row that has it.
_OF_GREATEST = re.compile(r"\Aselect ([^()]*), max\((\w+)\) from (.*)\sgroup by (.*)\Z", re.DOTALL)
_FIRST_OF_EACH = r"select distinct on (\4) \1, \2 from \3 order by \4, \2 desc"
# PostgreSQL lets a recursive query name itself only once.
_NAMES_EVER = re.compile(
    r"with recursive names \(namespace, name\) as \(.*?\(names\.namespace, names\.name\)\)", re.DOTALL
)
_NAMES_EVER_AT_ONCE = """with recursive names (namespace, name) as (
    select ?1::text collate "C", ?2::text collate "C" union
    select other.namespace, other.name from names cross join lateral (
        select other.namespace, other.name from nodes own join nodes other using (node_namespace, node_name)
        where (own.namespace, own.name) = (names.namespace, names.name)
        union all select renames.namespace, renames.name from renames
        where (to_namespace, to_name) = (names.namespace, names.name)
    ) other)"""
# SQLite joins in the order of a `cross join`; PostgreSQL chooses by itself, and takes no condition there.
_CROSS_JOIN = re.compile(r"\bcross join (?!lateral)")
# A list that is given as JSON; NUL is no character to PostgreSQL. It expects a hundred rows of any list, and reads
# whole tables for them. With a limit that it cannot know beforehand it expects ten, and looks each up by an index.
_LIST = re.compile(r"\bjson_each\((\?\d*)\)")
_LIST_OF_JSON = r"""(select value, value #>> '{}' as atom
    from json_array_elements(replace(\1, '\\u0000', '\\ufffd')::json) value
    limit (select 2147483647))"""
# To SQLite small letters of English are like large ones, and no others; so they are to PostgreSQL by this collation.
_LIKE = re.compile(r"\blike (?=\?)")
_LIKE_LETTERS = 'collate "C" ilike '
# To SQLite a null is less than any value, to PostgreSQL greater.
_DESCENDING = re.compile(r"\bdesc\b")
_MARK = re.compile(r"\?(\d*)")
_OWN_WORDS = (
    (_OF_GREATEST, _FIRST_OF_EACH),
    (_CROSS_JOIN, "join "),
    (_NAMES_EVER, _NAMES_EVER_AT_ONCE),
    (_LIST, _LIST_OF_JSON),
    (_LIKE, _LIKE_LETTERS),
)


def schema_in_postgres(schema: str) -> str:
    """Statements that make tables, indexes and views. Texts are compared byte by byte, as SQLite does."""
    typed = _TYPE.sub(lambda found: _TYPES[found[1]], _WITHOUT.sub("", schema))
    return _in_words(_INDEX.sub(_with_nulls_first, typed.replace(*_VIEW)))


@lru_cache(maxsize=1024)
def in_postgres(statement: str) -> str:
    """A statement, its values marked by `$1` and so on."""
    places = count(1)
    own = statement
    for pattern, words in _OWN_WORDS:
        own = pattern.sub(words, own)
    return _MARK.sub(lambda found: f"${found[1] or next(places)}", _in_words(own))


def _in_words(sql: str) -> str:
    ordered = _DESCENDING.sub("desc nulls last", sql)
    return _FUNCTION.sub(lambda found: _FUNCTIONS[found[1]], _OBJECTS.sub(_OBJECTS_JOINED, ordered))


def _with_nulls_first(index: re.Match[str]) -> str:
    """An index that gives the order in which SQLite has nulls, be it read forwards or backwards."""
    return f"{index[1]}({', '.join(f'{column} nulls first' for column in index[2].split(', '))})"
