"""Pictures that grow: what is there stays, what comes finds room, groups keep to their bands."""

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
def test_whoever_opens_whatever_nothing_moves_or_overlaps(openings: list[tuple[int, int, list[Size]]]) -> None:
    boxes = compute_layered_layout(
        {"a": Size(200, 80), "b": Size(160, 48), "c": Size(200, 120)}, [("a", "b"), ("b", "c")], SPACING
    )
    for number, (place, side, new) in enumerate(openings):
        anchor = list(boxes)[place % len(boxes)]
        step = {f"{number}-{i}": size for i, size in enumerate(new)}
        after = extend_layout(
            boxes, anchor, [step, {f"far {name}": size for name, size in step.items()}], side, SPACING
        )
        assert boxes.items() <= after.items()
        assert _overlapping(after) == []
        boxes = after


def test_what_is_opened_stands_beside_its_anchor() -> None:
    boxes = {"a": Box(0, 0, 200, 80)}
    after = extend_layout(boxes, "a", [{"job": Size(160, 48)}, {"table": Size(200, 100)}], 1, SPACING)
    assert after["job"] == Box(260, 16, 160, 48)
    assert after["table"] == Box(480, -10, 200, 100)
    assert extend_layout(boxes, "a", [{"job": Size(160, 48)}], -1, SPACING)["job"].x == -220


def test_each_group_has_a_band_of_its_own() -> None:
    links = [("a", "x"), ("x", "b"), ("b", "y"), ("c", "y")]
    boxes = compute_layered_layout({name: Size(200, 60) for name in "abcxy"}, links, SPACING)
    group_of = {"a": "wh", "b": "wh", "c": "wh", "x": "jobs", "y": "jobs"}
    banded_boxes = group_into_bands(boxes, group_of, 20, 30)
    assert {name: box.x for name, box in banded_boxes.items()} == {name: box.x for name, box in boxes.items()}
    assert _overlapping(banded_boxes) == []
    frames = [
        bounding_box([banded_boxes[name] for name in group_of if group_of[name] == one], 16, 20)
        for one in ("wh", "jobs")
    ]
    assert not _overlap(*frames)
