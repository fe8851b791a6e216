"""An edge through a frame that no variable held."""

from __future__ import annotations

import pytest

from clew.query.model import ColumnLineageEdge, DatasetName, EdgeType, LineageStep
from clew.query.upstream import collapse_frames, is_intermediate_frame

NAMED, UNNAMED, SOURCE = (
    DatasetName("marimo", "nb/out"),
    DatasetName("marimo", "nb/cell/dataframe_head"),
    DatasetName("file", "/a"),
)


def hop(dataset: DatasetName, edge: ColumnLineageEdge | None, *upstream: LineageStep) -> LineageStep:
    return LineageStep(dataset, None, "x", edge, None, None, upstream)


def edge(
    kind: EdgeType, subtype: str | None, source: DatasetName, flag: str | None = None, run: str = "r"
) -> ColumnLineageEdge:
    return ColumnLineageEdge(NAMED, None, "x", source, None, "x", kind, subtype, flag, run, "job")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dataset", "unnamed"),
    [(NAMED, False), (UNNAMED, True), (DatasetName("file", "/a/b/c"), False), (DatasetName("marimo", "nb"), False)],
)
def test_an_unnamed_frame_is_told_by_its_name(dataset: DatasetName, unnamed: bool) -> None:
    assert is_intermediate_frame(dataset) is unnamed


@pytest.mark.parametrize(
    ("near", "far", "through"),
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
def test_two_edges_make_one(
    near: tuple[EdgeType, str], far: tuple[EdgeType, str], through: tuple[EdgeType, str] | None
) -> None:
    whole = hop(NAMED, None, hop(UNNAMED, edge(*near, UNNAMED), hop(SOURCE, edge(*far, SOURCE))))
    found = [(one.dataset, one.edge.type, one.edge.subtype) for one in collapse_frames(whole).upstream if one.edge]
    assert found == ([] if through is None else [(SOURCE, *through)])


@pytest.mark.parametrize(("near", "far", "flag"), [("opaque", None, "opaque"), (None, "inferred", "inferred")])
def test_a_doubt_anywhere_is_a_doubt(near: str | None, far: str | None, flag: str) -> None:
    beyond = hop(SOURCE, edge("DIRECT", "IDENTITY", SOURCE, far))
    (source,) = collapse_frames(
        hop(NAMED, None, hop(UNNAMED, edge("DIRECT", "IDENTITY", UNNAMED, near), beyond))
    ).upstream
    assert source.edge is not None
    assert source.edge.flag == flag


def test_a_source_that_several_ways_lead_to_is_told_once() -> None:
    ways = [
        hop(UNNAMED, edge("DIRECT", "IDENTITY", UNNAMED), hop(SOURCE, edge("DIRECT", "IDENTITY", SOURCE)))
        for _ in range(3)
    ]
    assert len(collapse_frames(hop(NAMED, None, *ways)).upstream) == 1


def test_named_hops_stay_as_they_are() -> None:
    whole = hop(
        NAMED, None, hop(SOURCE, edge("DIRECT", "IDENTITY", SOURCE), hop(NAMED, edge("INDIRECT", "SORT", NAMED)))
    )
    assert collapse_frames(whole) == whole
