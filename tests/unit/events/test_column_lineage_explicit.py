"""Tests of explicit lineage: targets and sources of lineage facets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.events.column_lineage import (
    compute_edge_set_id,
    find_implied_inputs,
    parse_asserted_edges,
    parse_assertions,
    parse_explicit_assertions,
    parse_links,
)
from clew.events.openlineage import decode_openlineage

TARGET = {"type": "DATASET", "namespace": "n", "name": "t"}
SOURCE = {"type": "DATASET", "namespace": "n", "name": "s"}
FILTER = {"type": "INDIRECT", "subtype": "FILTER"}
OWN_JOB, OTHER_JOB = {"type": "JOB"}, {"type": "JOB", "namespace": "n", "name": "other"}


def facet(*entries: Any) -> bytes:
    return json.dumps({"entries": entries}).encode()


@pytest.mark.parametrize(
    ("facet", "edges"),
    [
        ({"inputs": [SOURCE]}, [(None, "s", None, "DIRECT", None)]),
        ({"inputs": [{**SOURCE, "field": "x"}]}, [(None, "s", "x", "DIRECT", None)]),
        ({"inputs": [{**SOURCE, "field": "x", "transformations": [FILTER]}]}, [(None, "s", "x", "INDIRECT", "FILTER")]),
        ({"fields": {"c": {"inputs": [{**SOURCE, "field": "x"}]}}}, [("c", "s", "x", "DIRECT", None)]),
        ({"fields": {"c": {"inputs": [SOURCE]}}}, [("c", "s", None, "DIRECT", None)]),
        (
            {
                "inputs": [SOURCE],
                "fields": {"c": {"inputs": [{**SOURCE, "transformations": [{"type": "DIRECT"}, FILTER]}]}},
            },
            [
                (None, "s", None, "DIRECT", None),
                ("c", "s", None, "DIRECT", None),
                ("c", "s", None, "INDIRECT", "FILTER"),
            ],
        ),
        ({"inputs": []}, []),
        # Jobs are not sources of columns; only a malformed source is ignored.
        ({"inputs": [OWN_JOB, OTHER_JOB, SOURCE]}, [(None, "s", None, "DIRECT", None)]),
        (
            {"inputs": [{"type": "DATASET", "name": "s"}, 7, {**SOURCE, "type": "TOPIC"}, SOURCE]},
            [(None, "s", None, "DIRECT", None)],
        ),
        ({"inputs": [{"namespace": "n", "name": "s"}]}, [(None, "s", None, "DIRECT", None)]),
        ({"inputs": 7, "fields": {"c": 7, "d": {"inputs": [SOURCE]}}}, [("d", "s", None, "DIRECT", None)]),
        # No assertion, or a retraction.
        ({}, None),
        ({"fields": {}}, None),
        ({"inputs": None}, None),
        ({"inputs": [SOURCE], "_deleted": True}, None),
    ],
)
def test_parse_asserted_edges(facet: dict[str, Any], edges: list[tuple[str | None, ...]] | None) -> None:
    asserted = parse_asserted_edges(b"lineage " + json.dumps(facet).encode())
    actual = (
        None
        if asserted is None
        else [(edge.column, edge.source_name, edge.source_column, edge.type, edge.subtype) for edge in asserted]
    )
    assert actual == edges


@pytest.mark.parametrize(
    ("entries", "targets"),
    [
        ([{**TARGET, "inputs": [SOURCE]}], ["t"]),
        ([{**TARGET, "inputs": []}, {**SOURCE, "inputs": []}], ["t", "s"]),
        # An entry without inputs, without a complete target, or of a job.
        ([TARGET, {"type": "DATASET", "name": "t", "inputs": []}, {**OTHER_JOB, "inputs": [SOURCE]}, 7, None], []),
    ],
)
def test_parse_explicit_assertions(entries: list[Any], targets: list[str]) -> None:
    assert [assertion.dataset_name for assertion in parse_explicit_assertions(facet(*entries))] == targets


@pytest.mark.parametrize("malformed", [b"{}", b"null", b'{"entries": {}}', b'{"entries": null}', b"[]"])
def test_malformed_facet_has_no_assertions(malformed: bytes) -> None:
    assert list(parse_explicit_assertions(malformed)) == []


def test_parse_links_resolves_the_own_job() -> None:
    entries = facet(
        {**OWN_JOB, "inputs": [SOURCE, OTHER_JOB]},
        {**TARGET, "inputs": [OWN_JOB, OTHER_JOB, {"type": "JOB", "name": "x"}]},
    )
    own, target = parse_links(entries, ("n", "own"))
    assert (own.target, own.sources) == (("JOB", "n", "own"), (("DATASET", "n", "s"), ("JOB", "n", "other")))
    assert (target.target, target.sources) == (("DATASET", "n", "t"), (("JOB", "n", "other"), ("JOB", "n", "own")))


COLUMN_LINEAGE = {"fields": {"c": {"inputFields": [{"namespace": "n", "name": "s", "field": "x"}]}}}


def event(**parts: Any) -> Any:
    return decode_openlineage(json.dumps({"eventTime": "2026-01-01T10:00:00Z", **parts}).encode())


def job(*entries: Any) -> dict[str, Any]:
    return {"namespace": "n", "name": "own", "facets": {"lineage": {"entries": entries}}}


@pytest.mark.parametrize(
    ("parts", "implied"),
    [
        ({"outputs": [{**TARGET, "facets": {"columnLineage": COLUMN_LINEAGE}}]}, {("n", "s")}),
        ({"outputs": [{**TARGET, "facets": {"columnLineage": COLUMN_LINEAGE}}], "inputs": [SOURCE]}, set()),
        ({"inputs": [{**TARGET, "facets": {"columnLineage": COLUMN_LINEAGE}}]}, set()),
        ({"job": job({**TARGET, "inputs": [SOURCE]})}, {("n", "s")}),
        ({"job": job({**OWN_JOB, "inputs": [SOURCE]})}, {("n", "s")}),
        ({"job": job({**OTHER_JOB, "inputs": [SOURCE]})}, set()),
        ({"outputs": [{**TARGET, "facets": {"lineage": {"inputs": [SOURCE]}}}]}, {("n", "s")}),
        ({"outputs": [TARGET]}, set()),
    ],
)
def test_find_implied_inputs(parts: dict[str, Any], implied: set[tuple[str, str]]) -> None:
    assert find_implied_inputs(event(**{"run": {"runId": "r"}, "job": job(), **parts})) == implied


def test_edge_set_id_depends_on_the_facet_name() -> None:
    both: dict[str, Any] = {"lineage": {"inputs": []}, "columnLineage": {"inputs": []}}
    explicit, columns = parse_assertions(event(dataset={**TARGET, "facets": both}))
    assert (explicit.origin, columns.origin) == ("lineage", "columnLineage")
    assert explicit.body == columns.body
    assert compute_edge_set_id(explicit.tagged_body) != compute_edge_set_id(columns.tagged_body)
