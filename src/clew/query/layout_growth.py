"""Extend an existing layout without moving its boxes; group boxes into bands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from clew.query.layout import Box, Size, Spacing


def extend_layout(
    boxes: Mapping[str, Box], anchor: str, steps: Sequence[Mapping[str, Size]], side: int, spacing: Spacing
) -> dict[str, Box]:
    """Add boxes next to `anchor`: the first step beside it, each further step one layer farther.

    `side` is -1 for left (upstream), 1 for right (downstream).
    """
    extended = dict(boxes)
    previous = boxes[anchor]
    for sizes in steps:
        if not sizes:
            continue
        width = max(size.width for size in sizes.values())
        x = previous.right + spacing.layer if side > 0 else previous.x - spacing.layer - width
        occupied = _overlapping_boxes(extended.values(), x, width)
        heights = [size.height for size in sizes.values()]
        y = _middle_y(previous) - (sum(heights) + spacing.node * (len(heights) - 1)) / 2
        for name, size in sizes.items():
            box = Box(
                x=x, y=_nearest_free_y(occupied, y, size.height, spacing.node), width=size.width, height=size.height
            )
            extended[name] = box
            occupied.append(box)
            y = box.bottom + spacing.node
        previous = Box(x=x, y=previous.y, width=width, height=previous.height)
    return extended


def group_into_bands(boxes: Mapping[str, Box], group_of: Mapping[str, str], gap: float, pad: float) -> dict[str, Box]:
    """Move each group into its own horizontal band; x and the order within a group do not change."""
    placed: dict[str, Box] = {}
    top = 0.0
    for group in sorted(set(group_of.values()), key=lambda name: _mean_y(boxes, group_of, name)):
        next_y: dict[float, float] = {}
        members = sorted((name for name in boxes if group_of[name] == group), key=lambda name: (boxes[name].y, name))
        for name in members:
            box = boxes[name]
            y = next_y.get(box.x, top)
            placed[name] = Box(x=box.x, y=y, width=box.width, height=box.height)
            next_y[box.x] = y + box.height + gap
        top = max(next_y.values()) + 2 * pad
    return placed


def bounding_box(boxes: Iterable[Box], pad: float, head: float) -> Box:
    """Return the bounding box of a group, with padding and room for its title."""
    members = list(boxes)
    x, y = min(box.x for box in members) - pad, min(box.y for box in members) - pad - head
    right, bottom = max(box.right for box in members) + pad, max(box.bottom for box in members) + pad
    return Box(x=x, y=y, width=right - x, height=bottom - y)


def _mean_y(boxes: Mapping[str, Box], group_of: Mapping[str, str], group: str) -> float:
    tops = [box.y for name, box in boxes.items() if group_of[name] == group]
    return sum(tops) / len(tops)


def _middle_y(box: Box) -> float:
    return box.y + box.height / 2


def _overlapping_boxes(boxes: Iterable[Box], x: float, width: float) -> list[Box]:
    """Return the boxes that overlap an x range."""
    return [box for box in boxes if box.x < x + width and x < box.right]


def _nearest_free_y(column: Iterable[Box], y: float, height: float, gap: float) -> float:
    """Return the y nearest to `y` at which a box of that height fits."""
    occupied = list(column)
    edges = [y, *(box.bottom + gap for box in occupied), *(box.y - gap - height for box in occupied)]
    candidates = (
        candidate
        for candidate in edges
        if all(candidate >= box.bottom + gap or candidate + height + gap <= box.y for box in occupied)
    )
    return min(candidates, key=lambda candidate: (abs(candidate - y), candidate))
