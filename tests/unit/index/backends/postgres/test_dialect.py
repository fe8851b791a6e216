"""Tests of the translation from SQLite SQL to PostgreSQL."""

from __future__ import annotations

import pytest

from clew.index.backends.postgres.dialect import schema_to_postgres, to_postgres


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("select a from t where b = ? and c in (?, ?)", "select a from t where b = $1 and c in ($2, $3)"),
        ("select ?1, ?2 union select ?1, a", "select $1, $2 union select $1, a"),
        ("select group_concat(a, ',') || char(31)", "select string_agg(a, ',') || chr(31)"),
        ("select total(a), max(a) from t", "select sum(a), max(a) from t"),
        ("select a from t order by b desc, c", "select a from t order by b desc nulls last, c"),
        ("select a from t cross join u on b = c", "select a from t join u on b = c"),
        ("select a from t where b like ?1 escape '!'", "select a from t where b collate \"C\" ilike $1 escape '!'"),
    ],
)
def test_to_postgres(statement: str, expected: str) -> None:
    assert to_postgres(statement) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "create table if not exists t (a text not null, b integer, c blob, d real, primary key (a)) without rowid;",
            (
                'create table if not exists t (a text collate "C" not null, b bigint, c bytea, d double precision,'
                " primary key (a));"
            ),
        ),
        (
            "create index if not exists t_by on t (a, b) where a is not null;",
            "create index if not exists t_by on t (a nulls first, b nulls first) where a is not null;",
        ),
        ("create view if not exists v as select 1;", "create or replace view v as select 1;"),
    ],
)
def test_schema_to_postgres(statement: str, expected: str) -> None:
    assert schema_to_postgres(statement) == expected
