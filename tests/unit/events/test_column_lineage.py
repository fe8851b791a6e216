"""The edges that a columnLineage facet states."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.events.column_lineage import parse_column_lineage

SOURCE = {"namespace": "n", "name": "t", "field": "x"}


def stated(facet: Any) -> list[tuple[str | None, str | None, str, str | None]]:
    edges = parse_column_lineage(json.dumps(facet).encode())
    return [(edge.column, edge.source_column, edge.type, edge.subtype) for edge in edges]


def how(kind: str | None, subtype: str | None = None, **more: Any) -> dict[str, Any]:
    return {**SOURCE, "transformations": [{"type": kind, "subtype": subtype, **more}]}


@pytest.mark.parametrize(
    ("facet", "edges"),
    [
        ({"fields": {"a": {"inputFields": [SOURCE]}}}, [("a", "x", "DIRECT", None)]),
        ({"fields": {"a": {"inputFields": [how("INDIRECT", "FILTER")]}}}, [("a", "x", "INDIRECT", "FILTER")]),
        ({"fields": {"a": {"inputFields": [how(None)]}}}, [("a", "x", "DIRECT", None)]),
        ({"dataset": [how("INDIRECT", "SORT")]}, [(None, "x", "INDIRECT", "SORT")]),
        ({"fields": {"a": {"inputFields": [{"namespace": "n", "name": "t"}]}}}, [("a", None, "DIRECT", None)]),
        # As written before facet version 1-2-0.
        (
            {"fields": {"a": {"inputFields": [SOURCE], "transformationType": None}}},
            [("a", "x", "DIRECT", None)],
        ),
        (
            {"fields": {"a": {"inputFields": [SOURCE], "transformationType": "IDENTITY"}}},
            [("a", "x", "DIRECT", "IDENTITY")],
        ),
        (
            {"fields": {"a": {"inputFields": [how("INDIRECT", "SORT")], "transformationType": "IDENTITY"}}},
            [("a", "x", "INDIRECT", "SORT")],
        ),
        (
            {"fields": {"a": {"inputFields": [SOURCE, 7], "transformationType": "IDENTITY"}}},
            [("a", "x", "DIRECT", "IDENTITY")],
        ),
        # A flawed source, column or part costs no more than itself.
        ({"fields": {"a": {"inputFields": [{"name": "t"}, SOURCE]}}}, [("a", "x", "DIRECT", None)]),
        ({"fields": {"a": 7, "b": {"inputFields": [SOURCE]}}}, [("b", "x", "DIRECT", None)]),
        ({"fields": {"a": {"inputFields": 7}}, "dataset": [SOURCE]}, [(None, "x", "DIRECT", None)]),
        ({"fields": [], "dataset": [SOURCE]}, [(None, "x", "DIRECT", None)]),
        ({"fields": {"a": {"inputFields": [how("DIRECT", masking="no"), SOURCE]}}}, [("a", "x", "DIRECT", None)]),
        ({"fields": None}, []),
        ({}, []),
        (None, []),
        ("text", []),
        ([], []),
    ],
)
def test_edges(facet: Any, edges: list[tuple[str | None, str | None, str, str | None]]) -> None:
    assert stated(facet) == edges


def test_each_transformation_is_an_edge() -> None:
    source = {**SOURCE, "transformations": [{"type": "DIRECT", "subtype": "IDENTITY"}, {"type": "INDIRECT"}]}
    assert stated({"fields": {"a": {"inputFields": [source]}}}) == [
        ("a", "x", "DIRECT", "IDENTITY"),
        ("a", "x", "INDIRECT", None),
    ]


def test_what_was_masked_before_masking_could_be_said() -> None:
    column = {"inputFields": [SOURCE], "transformationType": "MASKED", "transformationDescription": "md5(x)"}
    (edge,) = parse_column_lineage(json.dumps({"fields": {"a": column}}).encode())
    assert (edge.type, edge.subtype, edge.description, edge.masking) == ("DIRECT", None, "md5(x)", True)
