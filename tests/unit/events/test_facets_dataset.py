"""Schemas are named by their content, and rows are counted where a count is one."""

from __future__ import annotations

import pytest

from clew.events.facets import parse_owners, parse_row_count, parse_schema, parse_tags
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
def test_the_fields_of_a_schema(facet: bytes, fields: str | None) -> None:
    found = parse_schema(facet)
    assert (None if found is None else found.fields) == fields


def test_the_same_fields_are_the_same_schema() -> None:
    facets = (b'{"fields": [{"name": "a"}]}', b'{"x": 1, "fields":[{"name":"a"}]}', b'{"fields": [{"name": "b"}]}')
    one, same, other = map(parse_schema, facets)
    assert one == same != other


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
def test_row_counts(count: str, rows: int | None) -> None:
    assert parse_row_count(f'{{"rowCount": {count}}}'.encode()) == rows


def test_tags_and_owners_that_are_none_are_left_out() -> None:
    tags = b'{"tags": [{"key": "k", "value": "v", "source": "s", "field": "f"}, {"value": "v"}, 5, {"key": "bare"}]}'
    assert parse_tags(tags) == [("f", "k", "v", "s"), (None, "bare", None, None)]
    assert parse_owners(b'{"owners": [{"name": "n", "type": "t"}, {"type": "t"}, {"name": "m"}]}') == [
        ("n", "t"),
        ("m", None),
    ]
    assert parse_tags(b'{"tags": {"key": "k"}}') == []
    assert parse_owners(b"[]") == []


def test_a_version_does_not_depend_on_order_or_repetition_but_on_all_parts() -> None:
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
