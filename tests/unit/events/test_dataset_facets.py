"""Schemas are named by their content, and rows are counted where a count is one."""

from __future__ import annotations

import pytest

from clew.events.dataset_facets import row_count_of, schema_of
from clew.events.labels import owners_of, tags_of
from clew.events.versions import job_version


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
    found = schema_of(facet)
    assert (None if found is None else found.fields) == fields


def test_the_same_fields_are_the_same_schema() -> None:
    facets = (b'{"fields": [{"name": "a"}]}', b'{"x": 1, "fields":[{"name":"a"}]}', b'{"fields": [{"name": "b"}]}')
    one, same, other = map(schema_of, facets)
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
    assert row_count_of(f'{{"rowCount": {count}}}'.encode()) == rows


def test_tags_and_owners_that_are_none_are_left_out() -> None:
    tags = b'{"tags": [{"key": "k", "value": "v", "source": "s", "field": "f"}, {"value": "v"}, 5, {"key": "bare"}]}'
    assert tags_of(tags) == [("f", "k", "v", "s"), (None, "bare", None, None)]
    assert owners_of(b'{"owners": [{"name": "n", "type": "t"}, {"type": "t"}, {"name": "m"}]}') == [
        ("n", "t"),
        ("m", None),
    ]
    assert tags_of(b'{"tags": {"key": "k"}}') == []
    assert owners_of(b"[]") == []


def test_a_version_does_not_depend_on_order_or_repetition_but_on_all_parts() -> None:
    job, a, b = ("n", "j"), ("n", "a"), ("n", "b")
    version = job_version(job, [a, b], [b], "here")
    assert version == job_version(job, [b, a, b], [b], "here")
    others = [
        job_version(("n", "k"), [a, b], [b], "here"),
        job_version(job, [a], [b], "here"),
        job_version(job, [a, b], [a], "here"),
        job_version(job, [a, b], [b], "there"),
        job_version(job, [a, b], [b]),
        job_version(job, [b], [a, b], "here"),
    ]
    assert len({version, *others}) == 7
