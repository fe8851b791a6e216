"""What lineage facets say: of which target, and from which sources."""

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

T = {"type": "DATASET", "namespace": "n", "name": "t"}
S = {"type": "DATASET", "namespace": "n", "name": "s"}
FILTER = {"type": "INDIRECT", "subtype": "FILTER"}
OWN, OTHER = {"type": "JOB"}, {"type": "JOB", "namespace": "n", "name": "other"}


def facet(*entries: Any) -> bytes:
    return json.dumps({"entries": entries}).encode()


@pytest.mark.parametrize(
    ("said", "edges"),
    [
        ({"inputs": [S]}, [(None, "s", None, "DIRECT", None)]),
        ({"inputs": [{**S, "field": "x"}]}, [(None, "s", "x", "DIRECT", None)]),
        ({"inputs": [{**S, "field": "x", "transformations": [FILTER]}]}, [(None, "s", "x", "INDIRECT", "FILTER")]),
        ({"fields": {"c": {"inputs": [{**S, "field": "x"}]}}}, [("c", "s", "x", "DIRECT", None)]),
        ({"fields": {"c": {"inputs": [S]}}}, [("c", "s", None, "DIRECT", None)]),
        (
            {"inputs": [S], "fields": {"c": {"inputs": [{**S, "transformations": [{"type": "DIRECT"}, FILTER]}]}}},
            [
                (None, "s", None, "DIRECT", None),
                ("c", "s", None, "DIRECT", None),
                ("c", "s", None, "INDIRECT", "FILTER"),
            ],
        ),
        ({"inputs": []}, []),
        # Jobs are no columns; a flawed source costs no more than itself.
        ({"inputs": [OWN, OTHER, S]}, [(None, "s", None, "DIRECT", None)]),
        (
            {"inputs": [{"type": "DATASET", "name": "s"}, 7, {**S, "type": "TOPIC"}, S]},
            [(None, "s", None, "DIRECT", None)],
        ),
        ({"inputs": [{"namespace": "n", "name": "s"}]}, [(None, "s", None, "DIRECT", None)]),
        ({"inputs": 7, "fields": {"c": 7, "d": {"inputs": [S]}}}, [("d", "s", None, "DIRECT", None)]),
        # It says nothing, or takes back what was said.
        ({}, None),
        ({"fields": {}}, None),
        ({"inputs": None}, None),
        ({"inputs": [S], "_deleted": True}, None),
    ],
)
def test_edges(said: dict[str, Any], edges: list[tuple[str | None, ...]] | None) -> None:
    found = parse_asserted_edges(b"lineage " + json.dumps(said).encode())
    short = (
        None
        if found is None
        else [(edge.column, edge.source_name, edge.source_column, edge.type, edge.subtype) for edge in found]
    )
    assert short == edges


@pytest.mark.parametrize(
    ("entries", "targets"),
    [
        ([{**T, "inputs": [S]}], ["t"]),
        ([{**T, "inputs": []}, {**S, "inputs": []}], ["t", "s"]),
        # An entry that carries no lineage, that names no target, or a job.
        ([T, {"type": "DATASET", "name": "t", "inputs": []}, {**OTHER, "inputs": [S]}, 7, None], []),
    ],
)
def test_statements_of_a_job(entries: list[Any], targets: list[str]) -> None:
    assert [statement.dataset_name for statement in parse_explicit_assertions(facet(*entries))] == targets


@pytest.mark.parametrize("flawed", [b"{}", b"null", b'{"entries": {}}', b'{"entries": null}', b"[]"])
def test_a_flawed_facet_says_nothing(flawed: bytes) -> None:
    assert list(parse_explicit_assertions(flawed)) == []


def test_links_name_the_own_job() -> None:
    entries = facet({**OWN, "inputs": [S, OTHER]}, {**T, "inputs": [OWN, OTHER, {"type": "JOB", "name": "x"}]})
    own, target = parse_links(entries, ("n", "own"))
    assert (own.target, own.sources) == (("JOB", "n", "own"), (("DATASET", "n", "s"), ("JOB", "n", "other")))
    assert (target.target, target.sources) == (("DATASET", "n", "t"), (("JOB", "n", "other"), ("JOB", "n", "own")))


COLUMNS = {"fields": {"c": {"inputFields": [{"namespace": "n", "name": "s", "field": "x"}]}}}


def event(**parts: Any) -> Any:
    return decode_openlineage(json.dumps({"eventTime": "2026-01-01T10:00:00Z", **parts}).encode())


def job(*entries: Any) -> dict[str, Any]:
    return {"namespace": "n", "name": "own", "facets": {"lineage": {"entries": entries}}}


@pytest.mark.parametrize(
    ("parts", "implied"),
    [
        ({"outputs": [{**T, "facets": {"columnLineage": COLUMNS}}]}, {("n", "s")}),
        ({"outputs": [{**T, "facets": {"columnLineage": COLUMNS}}], "inputs": [S]}, set()),
        ({"inputs": [{**T, "facets": {"columnLineage": COLUMNS}}]}, set()),
        ({"job": job({**T, "inputs": [S]})}, {("n", "s")}),
        ({"job": job({**OWN, "inputs": [S]})}, {("n", "s")}),
        ({"job": job({**OTHER, "inputs": [S]})}, set()),
        ({"outputs": [{**T, "facets": {"lineage": {"inputs": [S]}}}]}, {("n", "s")}),
        ({"outputs": [T]}, set()),
    ],
)
def test_implied_inputs(parts: dict[str, Any], implied: set[tuple[str, str]]) -> None:
    assert find_implied_inputs(event(run={"runId": "r"}, **parts)) == implied


def test_the_same_body_is_two_statements_in_two_facets() -> None:
    both: dict[str, Any] = {"lineage": {"inputs": []}, "columnLineage": {"inputs": []}}
    explicit, columns = parse_assertions(event(dataset={**T, "facets": both}))
    assert (explicit.origin, columns.origin) == ("lineage", "columnLineage")
    assert explicit.body == columns.body
    assert compute_edge_set_id(explicit.tagged_body) != compute_edge_set_id(columns.tagged_body)
