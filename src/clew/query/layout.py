"""Layered layout of graphs, and extension of an existing layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

# Four passes (two each way) halve the crossings of a random start; further ones change little and cost as much.
_SWEEPS = 4
# Horizontal distance of the control points of a curve.
_MIN_BEND = 24


class Box(Struct, frozen=True):
    """A rectangle in CSS pixels; the origin is the top left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """x coordinate of the right side."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """y coordinate of the bottom side."""
        return self.y + self.height


class Size(Struct, frozen=True):
    """Size of a node."""

    width: float
    height: float


class Spacing(Struct, frozen=True):
    """Minimum distance between layers and between nodes of a layer."""

    layer: float = 72
    node: float = 20


_Adjacency: TypeAlias = dict[str, list[str]]


def compute_layered_layout(
    sizes: Mapping[str, Size], edges: Iterable[tuple[str, str]], spacing: Spacing | None = None
) -> dict[str, Box]:
    """Place each node to the right of its predecessors; edges that close a cycle are ignored."""
    spacing = spacing or Spacing()
    down = _acyclic(sizes, edges)
    up = _reverse(sizes, down)
    layer_of = _assign_layers(sizes, down, up)
    layers = _reduce_crossings(_initial_order(down, up, layer_of), down, up)
    return _place_boxes(layers, sizes, up, down, spacing)


def _acyclic(sizes: Mapping[str, Size], edges: Iterable[tuple[str, str]]) -> _Adjacency:
    """Return the successors of each node in input order, without back edges."""
    adjacency: _Adjacency = {node: [] for node in sizes}
    for source, target in dict.fromkeys(edges):
        if source != target and source in sizes and target in sizes:
            adjacency[source].append(target)
    back_edges = _find_back_edges(adjacency)
    return {node: [t for t in targets if (node, t) not in back_edges] for node, targets in adjacency.items()}


def _find_back_edges(adjacency: _Adjacency) -> set[tuple[str, str]]:
    back_edges: set[tuple[str, str]] = set()
    finished: set[str] = set()
    for root in adjacency:
        if root not in finished:
            _visit(root, adjacency, finished, back_edges)
    return back_edges


def _visit(root: str, adjacency: _Adjacency, finished: set[str], back_edges: set[tuple[str, str]]) -> None:
    # Iterative: a chain of 5,000 nodes would exceed the recursion limit.
    on_stack = {root}
    stack = [(root, iter(adjacency[root]))]
    while stack:
        node, targets = stack[-1]
        target = next(targets, None)
        if target is None:
            stack.pop()
            on_stack.discard(node)
            finished.add(node)
        elif target in on_stack:
            back_edges.add((node, target))
        elif target not in finished:
            on_stack.add(target)
            stack.append((target, iter(adjacency[target])))


def _reverse(sizes: Mapping[str, Size], down: _Adjacency) -> _Adjacency:
    up: _Adjacency = {node: [] for node in sizes}
    for node, targets in down.items():
        for target in targets:
            up[target].append(node)
    return up


def _assign_layers(sizes: Mapping[str, Size], down: _Adjacency, up: _Adjacency) -> dict[str, int]:
    """Assign layers by longest path from a source, then move nodes right, next to their first successor."""
    layer_of = dict.fromkeys(sizes, 0)
    order = _topological_order(down, up)
    for node in order:
        for target in down[node]:
            layer_of[target] = max(layer_of[target], layer_of[node] + 1)
    for node in reversed(order):
        # With more incoming than outgoing edges, moving right would increase the total edge length.
        if down[node] and len(up[node]) <= len(down[node]):
            layer_of[node] = min(layer_of[target] for target in down[node]) - 1
    return layer_of


def _topological_order(down: _Adjacency, up: _Adjacency) -> list[str]:
    in_degree = {node: len(sources) for node, sources in up.items()}
    order = [node for node, count in in_degree.items() if not count]
    for node in order:
        for target in down[node]:
            in_degree[target] -= 1
            if not in_degree[target]:
                order.append(target)
    return order


def _initial_order(down: _Adjacency, up: _Adjacency, layer_of: Mapping[str, int]) -> list[list[str]]:
    """Fill the layers depth first from the sources, so that a chain starts on one line."""
    layers: list[list[str]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    seen: set[str] = set()
    stack = [node for node in up if not up[node]][::-1]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            layers[layer_of[node]].append(node)
            stack.extend(reversed(down[node]))
    return layers


def _reduce_crossings(layers: list[list[str]], down: _Adjacency, up: _Adjacency) -> list[list[str]]:
    position = {node: i for layer in layers for i, node in enumerate(layer)}
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = up if forward else down
        for layer in layers if forward else reversed(layers):
            rank = {node: _median([position[n] for n in neighbours[node]], position[node]) for node in layer}
            # Stable sort: ties preserve their order, which makes the layout deterministic.
            layer.sort(key=rank.__getitem__)
            position.update((node, i) for i, node in enumerate(layer))
    return layers


def _median(values: Sequence[float], fallback: float) -> float:
    if not values:
        return fallback
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _place_boxes(
    layers: Sequence[list[str]], sizes: Mapping[str, Size], up: _Adjacency, down: _Adjacency, spacing: Spacing
) -> dict[str, Box]:
    top = _stack_layers(layers, sizes, spacing)
    for layer in layers:
        _align(layer, up, sizes, top, spacing)
    for layer in reversed(layers):
        _align(layer, down, sizes, top, spacing)
    highest = min(top.values(), default=0.0)
    boxes: dict[str, Box] = {}
    x = 0.0
    for layer in layers:
        width = max((sizes[node].width for node in layer), default=0.0)
        for node in layer:
            boxes[node] = Box(x=x, y=top[node] - highest, width=sizes[node].width, height=sizes[node].height)
        x += width + spacing.layer
    return boxes


def _stack_layers(layers: Sequence[list[str]], sizes: Mapping[str, Size], spacing: Spacing) -> dict[str, float]:
    top: dict[str, float] = {}
    for layer in layers:
        y = 0.0
        for node in layer:
            top[node] = y
            y += sizes[node].height + spacing.node
    return top


def _align(
    layer: list[str], neighbours: _Adjacency, sizes: Mapping[str, Size], top: dict[str, float], spacing: Spacing
) -> None:
    """Align the nodes of a layer with their neighbours, in order and without overlap.

    Pool-adjacent-violators: nodes that would overlap form a block at the mean of their desired positions,
    so nothing drifts downwards.
    """
    blocks: list[_Block] = []
    for node in layer:
        centre = _median([top[n] + sizes[n].height / 2 for n in neighbours[node]], top[node] + sizes[node].height / 2)
        block = _Block(nodes=[node], desired_y=centre - sizes[node].height / 2, height=sizes[node].height)
        while blocks and blocks[-1].desired_y + blocks[-1].height + spacing.node > block.desired_y:
            block = blocks.pop().merged_with(block, spacing.node)
        blocks.append(block)
    for block in blocks:
        y = block.desired_y
        for node in block.nodes:
            top[node] = y
            y += sizes[node].height + spacing.node


class _Block(Struct):
    """Adjacent nodes that move together; `desired_y` is the mean of their desired tops."""

    nodes: list[str]
    desired_y: float
    height: float

    def merged_with(self, below: _Block, gap: float) -> _Block:
        own_count, below_count = len(self.nodes), len(below.nodes)
        desired_y = (self.desired_y * own_count + (below.desired_y - self.height - gap) * below_count) / (
            own_count + below_count
        )
        return _Block(nodes=self.nodes + below.nodes, desired_y=desired_y, height=self.height + gap + below.height)


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


def curve_path(start: Box, start_y: float, end: Box, end_y: float) -> str:
    """Return the SVG path from the right side of a box to the left side of another."""
    bend = max((end.x - start.right) / 2, _MIN_BEND)
    control_points = f"{start.right + bend:g} {start_y:g} {end.x - bend:g} {end_y:g}"
    return f"M{start.right:g} {start_y:g}C{control_points} {end.x:g} {end_y:g}"


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
