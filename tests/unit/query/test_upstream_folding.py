"""Tests of collapsing intermediate frames in an upstream tree."""

from __future__ import annotations

from typing import Any

import pytest

from clew.query.graph.traversal import compose_transformations
from clew.query.model import DatasetName, EdgeType, LineageStep, Transformation
from clew.query.service import LineageService


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (DatasetName("marimo", "nb/out"), False),
        (DatasetName("marimo", "nb/cell/dataframe_head"), True),
        (DatasetName("file", "/a/b/c"), False),
        (DatasetName("marimo", "nb"), False),
    ],
)
def test_recognises_an_intermediate_frame_by_its_name(dataset: DatasetName, expected: bool) -> None:
    assert dataset.is_intermediate_frame is expected


@pytest.mark.parametrize(
    ("near", "far", "expected"),
    [
        (("DIRECT", "IDENTITY"), ("DIRECT", "IDENTITY"), ("DIRECT", "IDENTITY")),
        (("DIRECT", "IDENTITY"), ("DIRECT", "TRANSFORMATION"), ("DIRECT", "TRANSFORMATION")),
        (("DIRECT", "AGGREGATION"), ("DIRECT", "TRANSFORMATION"), ("DIRECT", "AGGREGATION")),
        (("DIRECT", None), ("DIRECT", "IDENTITY"), ("DIRECT", "IDENTITY")),
        (("DIRECT", "IDENTITY"), ("INDIRECT", "FILTER"), ("INDIRECT", "FILTER")),
        (("INDIRECT", "GROUP_BY"), ("DIRECT", "IDENTITY"), ("INDIRECT", "GROUP_BY")),
        (("INDIRECT", "GROUP_BY"), ("INDIRECT", "FILTER"), None),
    ],
)
def test_composes_two_transformations(
    near: tuple[EdgeType, str], far: tuple[EdgeType, str], expected: tuple[EdgeType, str] | None
) -> None:
    composed = compose_transformations(Transformation(*near), Transformation(*far))
    assert composed == (None if expected is None else Transformation(*expected))


def sources(notebook_events: Any, column: str) -> tuple[LineageStep, ...]:
    notebook_events.index_events()
    with LineageService.open(notebook_events.index) as service:
        return service.trace_column(column).upstream


@pytest.mark.parametrize(("near", "far", "flag"), [("opaque", "", "opaque"), ("", "inferred", "inferred")])
def test_carries_the_flag_of_either_edge(notebook_events: Any, near: str, far: str, flag: str) -> None:
    session = notebook_events.session()
    session.operation("head", "c/dataframe_head", {"x": [("a.csv", "x", "IDENTITY", far)]})
    session.operation("name", "out@1", {"x": [("c/dataframe_head", "x", "IDENTITY", near)]})
    (source,) = sources(notebook_events, "out.x")
    assert source.edge is not None
    assert (source.dataset.name, source.edge.flag) == ("/data/a.csv", flag)


def test_deduplicates_a_source_with_several_paths(notebook_events: Any) -> None:
    session = notebook_events.session()
    session.operation("split", "c/dataframe_split", {"x": [("a.csv", "x")], "y": [("a.csv", "x")]})
    session.operation("meet", "out@1", {"z": [("c/dataframe_split", "x"), ("c/dataframe_split", "y")]})
    assert len(sources(notebook_events, "out.z")) == 1
