"""Tests of the edges of columnLineage facets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.events.column_lineage import parse_column_lineage

SOURCE = {"namespace": "n", "name": "t", "field": "x"}


def parse_edges(facet: Any) -> list[tuple[str | None, str | None, str, str | None]]:
    edges = parse_column_lineage(json.dumps(facet).encode())
    return [(edge.column, edge.source_column, edge.type, edge.subtype) for edge in edges]


def source_with_transformation(kind: str | None, subtype: str | None = None, **rest: Any) -> dict[str, Any]:
    return {**SOURCE, "transformations": [{"type": kind, "subtype": subtype, **rest}]}


@pytest.mark.parametrize(
    ("facet", "edges"),
    [
        ({"fields": {"a": {"inputFields": [SOURCE]}}}, [("a", "x", "DIRECT", None)]),
        (
            {"fields": {"a": {"inputFields": [source_with_transformation("INDIRECT", "FILTER")]}}},
            [("a", "x", "INDIRECT", "FILTER")],
        ),
        ({"fields": {"a": {"inputFields": [source_with_transformation(None)]}}}, [("a", "x", "DIRECT", None)]),
        ({"dataset": [source_with_transformation("INDIRECT", "SORT")]}, [(None, "x", "INDIRECT", "SORT")]),
        ({"fields": {"a": {"inputFields": [{"namespace": "n", "name": "t"}]}}}, [("a", None, "DIRECT", None)]),
        # The form before facet version 1-2-0.
        (
            {"fields": {"a": {"inputFields": [SOURCE], "transformationType": None}}},
            [("a", "x", "DIRECT", None)],
        ),
        (
            {"fields": {"a": {"inputFields": [SOURCE], "transformationType": "IDENTITY"}}},
            [("a", "x", "DIRECT", "IDENTITY")],
        ),
        (
            {
                "fields": {
                    "a": {
                        "inputFields": [source_with_transformation("INDIRECT", "SORT")],
                        "transformationType": "IDENTITY",
                    }
                }
            },
            [("a", "x", "INDIRECT", "SORT")],
        ),
        (
            {"fields": {"a": {"inputFields": [SOURCE, 7], "transformationType": "IDENTITY"}}},
            [("a", "x", "DIRECT", "IDENTITY")],
        ),
        # Only a malformed source, column or part is ignored.
        ({"fields": {"a": {"inputFields": [{"name": "t"}, SOURCE]}}}, [("a", "x", "DIRECT", None)]),
        ({"fields": {"a": 7, "b": {"inputFields": [SOURCE]}}}, [("b", "x", "DIRECT", None)]),
        ({"fields": {"a": {"inputFields": 7}}, "dataset": [SOURCE]}, [(None, "x", "DIRECT", None)]),
        ({"fields": [], "dataset": [SOURCE]}, [(None, "x", "DIRECT", None)]),
        (
            {"fields": {"a": {"inputFields": [source_with_transformation("DIRECT", masking="no"), SOURCE]}}},
            [("a", "x", "DIRECT", None)],
        ),
        ({"fields": None}, []),
        ({}, []),
        (None, []),
        ("text", []),
        ([], []),
    ],
)
def test_parse_column_lineage(facet: Any, edges: list[tuple[str | None, str | None, str, str | None]]) -> None:
    assert parse_edges(facet) == edges


def test_one_edge_per_transformation() -> None:
    source = {**SOURCE, "transformations": [{"type": "DIRECT", "subtype": "IDENTITY"}, {"type": "INDIRECT"}]}
    assert parse_edges({"fields": {"a": {"inputFields": [source]}}}) == [
        ("a", "x", "DIRECT", "IDENTITY"),
        ("a", "x", "INDIRECT", None),
    ]


def test_legacy_masked_transformation() -> None:
    column = {"inputFields": [SOURCE], "transformationType": "MASKED", "transformationDescription": "md5(x)"}
    (edge,) = parse_column_lineage(json.dumps({"fields": {"a": column}}).encode())
    assert (edge.type, edge.subtype, edge.description, edge.masking) == ("DIRECT", None, "md5(x)", True)
