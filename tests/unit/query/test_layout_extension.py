"""Tests of extending a layout and of grouping it into bands."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from clew.query.layout import Box, Size, Spacing, bounding_box, compute_layered_layout, extend_layout, group_into_bands

SPACING = Spacing(layer=60, node=20)
sizes = st.builds(Size, width=st.sampled_from([160, 200]), height=st.integers(30, 300))


def _overlap(a: Box, b: Box) -> bool:
    return a.x < b.right and b.x < a.right and a.y < b.bottom and b.y < a.bottom


def _overlapping(boxes: dict[str, Box]) -> list[tuple[str, str]]:
    return [pair for pair in combinations(boxes, 2) if _overlap(boxes[pair[0]], boxes[pair[1]])]


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from([-1, 1]), st.lists(sizes, max_size=6)), max_size=8))
def test_extending_moves_and_overlaps_nothing(expansions: list[tuple[int, int, list[Size]]]) -> None:
    boxes = compute_layered_layout(
        {"a": Size(200, 80), "b": Size(160, 48), "c": Size(200, 120)}, [("a", "b"), ("b", "c")], SPACING
    )
    for number, (position, side, new_sizes) in enumerate(expansions):
        anchor = list(boxes)[position % len(boxes)]
        layer = {f"{number}-{i}": size for i, size in enumerate(new_sizes)}
        extended = extend_layout(
            boxes, anchor, [layer, {f"far {name}": size for name, size in layer.items()}], side, SPACING
        )
        assert boxes.items() <= extended.items()
        assert _overlapping(extended) == []
        boxes = extended


def test_new_nodes_are_beside_their_anchor() -> None:
    boxes = {"a": Box(0, 0, 200, 80)}
    extended = extend_layout(boxes, "a", [{"job": Size(160, 48)}, {"table": Size(200, 100)}], 1, SPACING)
    assert extended["job"] == Box(260, 16, 160, 48)
    assert extended["table"] == Box(480, -10, 200, 100)
    assert extend_layout(boxes, "a", [{"job": Size(160, 48)}], -1, SPACING)["job"].x == -220


def test_each_group_has_its_own_band() -> None:
    links = [("a", "x"), ("x", "b"), ("b", "y"), ("c", "y")]
    boxes = compute_layered_layout({name: Size(200, 60) for name in "abcxy"}, links, SPACING)
    group_of = {"a": "wh", "b": "wh", "c": "wh", "x": "jobs", "y": "jobs"}
    banded_boxes = group_into_bands(boxes, group_of, 20, 30)
    assert {name: box.x for name, box in banded_boxes.items()} == {name: box.x for name, box in boxes.items()}
    assert _overlapping(banded_boxes) == []
    frames = [
        bounding_box([banded_boxes[name] for name in group_of if group_of[name] == group], 16, 20)
        for group in ("wh", "jobs")
    ]
    assert not _overlap(*frames)
