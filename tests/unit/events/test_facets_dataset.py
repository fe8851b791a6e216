"""Tests of parsing schemas, row counts, tags, owners and test results, and of job versions."""

from __future__ import annotations

import pytest

from clew.events.facets import parse_owners, parse_quality_assertions, parse_row_count, parse_schema, parse_tags
from clew.events.ids import compute_job_version


@pytest.mark.parametrize(
    ("facet", "fields"),
    [
        (b'{"fields": [ {"name" : "a"} ]}', '[{"name":"a"}]'),
        (b'{"_producer": "p", "fields": [{"name":"a"}]}', '[{"name":"a"}]'),
        (b'{"fields": [{"n": 12345678901234567890123}]}', '[{"n":12345678901234567890123}]'),
        (b'{"fields": []}', "[]"),
        (b'{"fields": null}', None),
        (b'{"fields": 7}', None),
        (b"{}", None),
        (b'"none"', None),
        (b'{"fields": [], "_deleted": true}', None),
    ],
)
def test_parse_schema(facet: bytes, fields: str | None) -> None:
    schema = parse_schema(facet)
    assert (None if schema is None else schema.fields) == fields


def test_equal_fields_give_equal_schemas() -> None:
    facets = (b'{"fields": [{"name": "a"}]}', b'{"x": 1, "fields":[{"name":"a"}]}', b'{"fields": [{"name": "b"}]}')
    schema, equal_schema, other_schema = map(parse_schema, facets)
    assert schema == equal_schema != other_schema


@pytest.mark.parametrize(
    ("count", "rows"),
    [
        ("3", 3),
        ("3.0", 3),
        ("3.5", None),
        ('"3"', None),
        ("true", None),
        ("null", None),
        (str(2**63), None),
        ("[]", None),
    ],
)
def test_parse_row_count(count: str, rows: int | None) -> None:
    assert parse_row_count(f'{{"rowCount": {count}}}'.encode()) == rows


def test_parse_tags_and_owners_ignores_malformed_items() -> None:
    tags = b'{"tags": [{"key": "k", "value": "v", "source": "s", "field": "f"}, {"value": "v"}, 5, {"key": "bare"}]}'
    assert parse_tags(tags) == [("f", "k", "v", "s"), (None, "bare", None, None)]
    assert parse_owners(b'{"owners": [{"name": "n", "type": "t"}, {"type": "t"}, {"name": "m"}]}') == [
        ("n", "t"),
        ("m", None),
    ]
    assert parse_tags(b'{"tags": {"key": "k"}}') == []
    assert parse_owners(b"[]") == []


def test_job_version_depends_on_all_parts_but_not_on_order() -> None:
    job, a, b = ("n", "j"), ("n", "a"), ("n", "b")
    version = compute_job_version(job, [a, b], [b], "here")
    assert version == compute_job_version(job, [b, a, b], [b], "here")
    others = [
        compute_job_version(("n", "k"), [a, b], [b], "here"),
        compute_job_version(job, [a], [b], "here"),
        compute_job_version(job, [a, b], [a], "here"),
        compute_job_version(job, [a, b], [b], "there"),
        compute_job_version(job, [a, b], [b]),
        compute_job_version(job, [b], [a, b], "here"),
    ]
    assert len({version, *others}) == 7


@pytest.mark.parametrize(
    ("facet", "expected"),
    [
        (b'{"assertions": [{"assertion": "unique", "success": true, "column": "id"}]}', [("unique", "id", None, True)]),
        (b'{"assertions": [{"assertion": "unique", "success": "yes"}]}', [("unique", None, None, None)]),
        (b'{"assertions": [{"name": "no_orphans", "success": false}]}', [("no_orphans", None, "no_orphans", False)]),
        (b'{"assertions": [{"assertion": "a", "column": ["x", "y"]}]}', [("a", '["x","y"]', None, None)]),
        (b'{"assertions": ["text", null, 7, {}, {"success": true}, {"assertion": ""}]}', []),
        (b'{"assertions": {"assertion": "a", "success": true}}', []),
        (b'{"_deleted": true, "assertions": [{"assertion": "a", "success": true}]}', []),
        (b"[]", []),
        (b"null", []),
    ],
)
def test_parse_quality_assertions(facet: bytes, expected: list[tuple[object, ...]]) -> None:
    parsed = parse_quality_assertions(facet)
    assert [(item.assertion, item.column, item.name, item.success) for item in parsed] == expected


def test_equal_assertions_of_a_facet_are_numbered() -> None:
    item = b'{"assertion": "between", "column": "price", "success": true, "params": {"min": 1}, "expected": 5}'
    first, second = parse_quality_assertions(b'{"assertions": [' + item + b"," + item + b"]}")
    assert (first.occurrence, second.occurrence) == (0, 1)
    assert (first.expected, first.params) == ("5", '{"min":1}')
