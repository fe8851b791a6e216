"""Tests of error messages: data values are redacted."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest

from clew.capture.emit.redaction import describe_failure

PEOPLE = pd.DataFrame({"name": ["Ann Zebra", "Bob Yak"], "age": [31, 42]})


class RaisingError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def redacted_message(source: str) -> str:
    code = compile(source, "/home/user/book.py", "exec")
    namespace: dict[str, Any] = {"pd": pd, "pl": pl, "duckdb": duckdb, "people": PEOPLE}
    try:
        exec(code, namespace)
    except Exception as error:  # noqa: BLE001 - a case may raise any error
        return describe_failure(error, source).message
    pytest.fail("nothing was raised")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("people['name'].astype(float)", "could not convert string to float: '***'"),
        ("int(people['name'][0])", "invalid literal for int() with base 10: '***'"),
        ("people['nope']", "'nope'"),
        ("people[people['name'][0]]", "'***'"),
        ("people[['name', 'nope']]", "\"['nope'] not in index\""),
        ("people[[*people['name']]]", "\"None of [Index(['***', '***'], dtype='str')] are in the [columns]\""),
        ("people.columns = ['a']", "Length mismatch: Expected axis has 2 elements, new values have 1 elements"),
        ("pd.to_datetime(people['name'][0])", "Unknown datetime string format, unable to parse: ***"),
        ("raise ValueError(f'no customer {people.name[0]} in 3 rows')", "no customer *** in 3 rows"),
        ("assert people.empty, people['name'][0]", "***"),
        ("assert people.empty", ""),
        ("1 + {}", "unsupported operand type(s) for +: 'int' and 'dict'"),
        ("people.nope", "'DataFrame' object has no attribute 'nope'"),
        ("import nope.inside", "No module named 'nope'"),
        ("__import__('no' + 'pe')", "No module named 'nope'"),
        ("int('https://ann:pw12345@h'[8:])", "invalid literal for int() with base 10: '***'"),
        ("raise ValueError('a plain message, as it is: %d' % 3)", "a plain message, as it is: 3"),
        (
            (
                "try:\n    float(people['name'][0])\nexcept ValueError as error:\n"
                "    raise RuntimeError(f'cannot go on: {error}') from error"
            ),
            "cannot go on: could not convert string to float: ***",
        ),
        (
            (
                "class Bad(Exception):\n    def __init__(self, who):\n        super().__init__(f'bad customer {who}')\n"
                "raise Bad(people['name'][0])"
            ),
            "bad customer ***",
        ),
        ("raise RuntimeError('password=hunter2 was refused')", "password=*** was refused"),
    ],
)
def test_messages_contain_no_data(source: str, message: str) -> None:
    assert redacted_message(source) == message


def test_truncated_message_contains_no_partial_value() -> None:
    assert describe_failure(ValueError("x" * 9995 + " 'Ann Zebra'"), "").message == "x" * 9995 + " '***"


def test_exception_without_a_message() -> None:
    assert describe_failure(RaisingError(), "").message == "(no message: RuntimeError)"


@pytest.mark.parametrize(
    "source",
    [
        "duckdb.sql('select name::int from people').df()",
        "duckdb.sql(f\"select nope from people where name = '{people.name[0]}'\").df()",
        "pl.from_pandas(people)['name'].cast(pl.Int64)",
        "pd.to_numeric(people['name'])",
        "pd.to_datetime(people['name'], format='%Y')",
        "people.set_index('name').loc['a':people['name'][1]].loc[people['name'][0]]",
        "people.astype({'name': 'int64[pyarrow]'})",
        "people['name'].map(lambda name: int(name))",
        "people['name'].map({}.__getitem__)",
    ],
)
def test_library_messages_contain_no_data(source: str) -> None:
    message = redacted_message(source)
    assert message
    assert not {"Ann", "Zebra", "Bob", "Yak"} & set(message.replace("'", " ").replace('"', " ").split())
