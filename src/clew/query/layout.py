"""Where the boxes of a directed graph stand: layers from left to right, the same picture every time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Four passes (two each way) halve the crossings of a random start; further ones change little and cost as much.
_SWEEPS = 4


class Box(Struct, frozen=True):
    """A rectangle on the page, in CSS pixels from the top left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The x of the right side."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of the lower side."""
        return self.y + self.height


class Size(Struct, frozen=True):
    """How much room a node needs."""

    width: float
    height: float


class Spacing(Struct, frozen=True):
    """The least distance between layers and between neighbours in a layer."""

    layer: float = 72
    node: float = 20


_Adjacency: TypeAlias = dict[str, list[str]]


def layered(
    sizes: Mapping[str, Size], edges: Iterable[tuple[str, str]], spacing: Spacing | None = None
) -> dict[str, Box]:
    """Place each node right of all it depends on; edges that close a cycle are drawn but do not count."""
    spacing = spacing or Spacing()
    down = _acyclic(sizes, edges)
    up = _reversed(sizes, down)
    layer_of = _layers(sizes, down, up)
    layers = _swept(_start_order(down, up, layer_of), down, up)
    return _boxes(layers, sizes, up, down, spacing)


def _acyclic(sizes: Mapping[str, Size], edges: Iterable[tuple[str, str]]) -> _Adjacency:
    """Successors of each node in the order given, without the edges that lead back to a node still being visited."""
    wanted: _Adjacency = {node: [] for node in sizes}
    for source, target in dict.fromkeys(edges):
        if source != target and source in sizes and target in sizes:
            wanted[source].append(target)
    closing = _closing_edges(wanted)
    return {node: [t for t in targets if (node, t) not in closing] for node, targets in wanted.items()}


def _closing_edges(wanted: _Adjacency) -> set[tuple[str, str]]:
    closing: set[tuple[str, str]] = set()
    finished: set[str] = set()
    for root in wanted:
        if root not in finished:
            _visit(root, wanted, finished, closing)
    return closing


def _visit(root: str, wanted: _Adjacency, finished: set[str], closing: set[tuple[str, str]]) -> None:
    # A loop of its own, not recursion: a chain of 5,000 nodes would exceed Python's stack.
    open_nodes = {root}
    stack = [(root, iter(wanted[root]))]
    while stack:
        node, targets = stack[-1]
        target = next(targets, None)
        if target is None:
            stack.pop()
            open_nodes.discard(node)
            finished.add(node)
        elif target in open_nodes:
            closing.add((node, target))
        elif target not in finished:
            open_nodes.add(target)
            stack.append((target, iter(wanted[target])))


def _reversed(sizes: Mapping[str, Size], down: _Adjacency) -> _Adjacency:
    up: _Adjacency = {node: [] for node in sizes}
    for node, targets in down.items():
        for target in targets:
            up[target].append(node)
    return up


def _layers(sizes: Mapping[str, Size], down: _Adjacency, up: _Adjacency) -> dict[str, int]:
    """Longest path from a source; then what is waited for moves right, next to the first that needs it."""
    layer_of = dict.fromkeys(sizes, 0)
    order = _topological(down, up)
    for node in order:
        for target in down[node]:
            layer_of[target] = max(layer_of[target], layer_of[node] + 1)
    for node in reversed(order):
        # With more edges in than out, moving right would make the edges longer in all.
        if down[node] and len(up[node]) <= len(down[node]):
            layer_of[node] = min(layer_of[target] for target in down[node]) - 1
    return layer_of


def _topological(down: _Adjacency, up: _Adjacency) -> list[str]:
    waiting = {node: len(sources) for node, sources in up.items()}
    order = [node for node, count in waiting.items() if not count]
    for node in order:
        for target in down[node]:
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order


def _start_order(down: _Adjacency, up: _Adjacency, layer_of: Mapping[str, int]) -> list[list[str]]:
    """Fill the layers depth first from the sources, so that a chain starts out on one line."""
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


def _swept(layers: list[list[str]], down: _Adjacency, up: _Adjacency) -> list[list[str]]:
    place = {node: i for layer in layers for i, node in enumerate(layer)}
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = up if forward else down
        for layer in layers if forward else reversed(layers):
            rank = {node: _median([place[n] for n in neighbours[node]], place[node]) for node in layer}
            # Python's sort is stable: ties keep their order, which keeps the picture the same every time.
            layer.sort(key=rank.__getitem__)
            place.update((node, i) for i, node in enumerate(layer))
    return layers


def _median(values: Sequence[float], fallback: float) -> float:
    if not values:
        return fallback
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _boxes(
    layers: Sequence[list[str]], sizes: Mapping[str, Size], up: _Adjacency, down: _Adjacency, spacing: Spacing
) -> dict[str, Box]:
    top = _stacked(layers, sizes, spacing)
    for layer in layers:
        _pull(layer, up, sizes, top, spacing)
    for layer in reversed(layers):
        _pull(layer, down, sizes, top, spacing)
    highest = min(top.values(), default=0.0)
    boxes: dict[str, Box] = {}
    x = 0.0
    for layer in layers:
        width = max((sizes[node].width for node in layer), default=0.0)
        for node in layer:
            boxes[node] = Box(x=x, y=top[node] - highest, width=sizes[node].width, height=sizes[node].height)
        x += width + spacing.layer
    return boxes


def _stacked(layers: Sequence[list[str]], sizes: Mapping[str, Size], spacing: Spacing) -> dict[str, float]:
    top: dict[str, float] = {}
    for layer in layers:
        y = 0.0
        for node in layer:
            top[node] = y
            y += sizes[node].height + spacing.node
    return top


def _pull(
    layer: list[str], neighbours: _Adjacency, sizes: Mapping[str, Size], top: dict[str, float], spacing: Spacing
) -> None:
    """Move a layer's nodes level with their neighbours, in order and without overlap.

    Each node wants a height of its own; runs of nodes that would overlap share the mean of their wishes
    (the pool-adjacent-violators method), so nothing drifts downwards.
    """
    blocks: list[_Block] = []
    for node in layer:
        centre = _median([top[n] + sizes[n].height / 2 for n in neighbours[node]], top[node] + sizes[node].height / 2)
        block = _Block(nodes=[node], wish=centre - sizes[node].height / 2, height=sizes[node].height)
        while blocks and blocks[-1].wish + blocks[-1].height + spacing.node > block.wish:
            block = blocks.pop().joined(block, spacing.node)
        blocks.append(block)
    for block in blocks:
        y = block.wish
        for node in block.nodes:
            top[node] = y
            y += sizes[node].height + spacing.node


class _Block(Struct):
    """Neighbours that touch and so move as one; `wish` is the top they want on average."""

    nodes: list[str]
    wish: float
    height: float

    def joined(self, below: _Block, gap: float) -> _Block:
        mine, theirs = len(self.nodes), len(below.nodes)
        wish = (self.wish * mine + (below.wish - self.height - gap) * theirs) / (mine + theirs)
        return _Block(nodes=self.nodes + below.nodes, wish=wish, height=self.height + gap + below.height)


def neighbourhood(centre: str, edges: Iterable[tuple[str, str]], hops: int) -> list[str]:
    """The nodes at most `hops` edges upstream or downstream of `centre`, never sideways, nearest first."""
    up: defaultdict[str, list[str]] = defaultdict(list)
    down: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        down[source].append(target)
        up[target].append(source)
    return list(dict.fromkeys([*_reached(centre, up, hops), *_reached(centre, down, hops)]))


def _reached(centre: str, adjacent: Mapping[str, list[str]], hops: int) -> list[str]:
    found = {centre: 0}
    queue = [centre]
    for node in queue:
        if found[node] < hops:
            for neighbour in adjacent.get(node, ()):
                if neighbour not in found:
                    found[neighbour] = found[node] + 1
                    queue.append(neighbour)
    return queue
