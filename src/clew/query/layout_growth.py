"""Boxes that join a picture later: they find room around what is there, and what is there stays where it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from clew.query.layout import Box, Size, Spacing


def grown(
    boxes: Mapping[str, Box], anchor: str, steps: Sequence[Mapping[str, Size]], side: int, spacing: Spacing
) -> dict[str, Box]:
    """The boxes with new ones beside `anchor`: the first step next to it, each further step beyond the one before.

    `side` is -1 for the left (upstream) and 1 for the right.
    """
    grown_boxes = dict(boxes)
    beside = boxes[anchor]
    for sizes in steps:
        if not sizes:
            continue
        width = max(size.width for size in sizes.values())
        x = beside.right + spacing.layer if side > 0 else beside.x - spacing.layer - width
        column = _column(grown_boxes.values(), x, width)
        heights = [size.height for size in sizes.values()]
        y = _middle(beside) - (sum(heights) + spacing.node * (len(heights) - 1)) / 2
        for name, size in sizes.items():
            place = Box(x=x, y=_free(column, y, size.height, spacing.node), width=size.width, height=size.height)
            grown_boxes[name] = place
            column.append(place)
            y = place.bottom + spacing.node
        beside = Box(x=x, y=beside.y, width=width, height=beside.height)
    return grown_boxes


def banded(boxes: Mapping[str, Box], group_of: Mapping[str, str], gap: float, pad: float) -> dict[str, Box]:
    """The same picture with each group in a band of its own: a box keeps its x, and its order among its own."""
    placed: dict[str, Box] = {}
    top = 0.0
    for group in sorted(set(group_of.values()), key=lambda one: _mean_y(boxes, group_of, one)):
        columns: dict[float, float] = {}
        own = sorted((name for name in boxes if group_of[name] == group), key=lambda name: (boxes[name].y, name))
        for name in own:
            box = boxes[name]
            y = columns.get(box.x, top)
            placed[name] = Box(x=box.x, y=y, width=box.width, height=box.height)
            columns[box.x] = y + box.height + gap
        top = max(columns.values()) + 2 * pad
    return placed


def around(boxes: Iterable[Box], pad: float, head: float) -> Box:
    """The frame of a group, with room for its name."""
    inside = list(boxes)
    x, y = min(box.x for box in inside) - pad, min(box.y for box in inside) - pad - head
    right, bottom = max(box.right for box in inside) + pad, max(box.bottom for box in inside) + pad
    return Box(x=x, y=y, width=right - x, height=bottom - y)


def _mean_y(boxes: Mapping[str, Box], group_of: Mapping[str, str], group: str) -> float:
    tops = [box.y for name, box in boxes.items() if group_of[name] == group]
    return sum(tops) / len(tops)


def _middle(box: Box) -> float:
    return box.y + box.height / 2


def _column(boxes: Iterable[Box], x: float, width: float) -> list[Box]:
    """What stands in the way of a column."""
    return [box for box in boxes if box.x < x + width and x < box.right]


def _free(column: Iterable[Box], y: float, height: float, gap: float) -> float:
    """The place nearest to `y` where a box of that height fits."""
    taken = list(column)
    edges = [y, *(box.bottom + gap for box in taken), *(box.y - gap - height for box in taken)]
    free = (one for one in edges if all(one >= box.bottom + gap or one + height + gap <= box.y for box in taken))
    return min(free, key=lambda one: (abs(one - y), one))
