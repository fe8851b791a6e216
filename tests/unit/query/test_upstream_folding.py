"""Tests of collapsing intermediate frames in an upstream tree."""

from __future__ import annotations

import pytest

from clew.query.model import ColumnLineageEdge, DatasetName, EdgeType, LineageStep
from clew.query.upstream import collapse_frames, is_intermediate_frame

VARIABLE, INTERMEDIATE, SOURCE = (
    DatasetName("marimo", "nb/out"),
    DatasetName("marimo", "nb/cell/dataframe_head"),
    DatasetName("file", "/a"),
)


def step(dataset: DatasetName, edge: ColumnLineageEdge | None, *upstream: LineageStep) -> LineageStep:
    return LineageStep(dataset, None, "x", edge, None, None, upstream)


def edge(
    kind: EdgeType, subtype: str | None, source: DatasetName, flag: str | None = None, run: str = "r"
) -> ColumnLineageEdge:
    return ColumnLineageEdge(VARIABLE, None, "x", source, None, "x", kind, subtype, flag, run, "job")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (VARIABLE, False),
        (INTERMEDIATE, True),
        (DatasetName("file", "/a/b/c"), False),
        (DatasetName("marimo", "nb"), False),
    ],
)
def test_recognises_an_intermediate_frame_by_its_name(dataset: DatasetName, expected: bool) -> None:
    assert is_intermediate_frame(dataset) is expected


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
def test_composes_two_edges(
    near: tuple[EdgeType, str], far: tuple[EdgeType, str], expected: tuple[EdgeType, str] | None
) -> None:
    tree = step(VARIABLE, None, step(INTERMEDIATE, edge(*near, INTERMEDIATE), step(SOURCE, edge(*far, SOURCE))))
    edges = [
        (source.dataset, source.edge.type, source.edge.subtype)
        for source in collapse_frames(tree).upstream
        if source.edge
    ]
    assert edges == ([] if expected is None else [(SOURCE, *expected)])


@pytest.mark.parametrize(("near", "far", "flag"), [("opaque", None, "opaque"), (None, "inferred", "inferred")])
def test_carries_the_flag_of_either_edge(near: str | None, far: str | None, flag: str) -> None:
    far_step = step(SOURCE, edge("DIRECT", "IDENTITY", SOURCE, far))
    (source,) = collapse_frames(
        step(VARIABLE, None, step(INTERMEDIATE, edge("DIRECT", "IDENTITY", INTERMEDIATE, near), far_step))
    ).upstream
    assert source.edge is not None
    assert source.edge.flag == flag


def test_deduplicates_a_source_with_several_paths() -> None:
    paths = [
        step(INTERMEDIATE, edge("DIRECT", "IDENTITY", INTERMEDIATE), step(SOURCE, edge("DIRECT", "IDENTITY", SOURCE)))
        for _ in range(3)
    ]
    assert len(collapse_frames(step(VARIABLE, None, *paths)).upstream) == 1


def test_does_not_change_named_steps() -> None:
    tree = step(
        VARIABLE,
        None,
        step(SOURCE, edge("DIRECT", "IDENTITY", SOURCE), step(VARIABLE, edge("INDIRECT", "SORT", VARIABLE))),
    )
    assert collapse_frames(tree) == tree
