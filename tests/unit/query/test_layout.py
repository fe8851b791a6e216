"""Tests of the layered graph layout: deterministic, without overlaps, and terminating on any graph."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from clew.query.layout import Box, Size, Spacing, compute_layered_layout
from clew.query.pages.run_page import nodes_within_hops

Edges = list[tuple[str, str]]


def _sizes(count: int) -> dict[str, Size]:
    return {f"n{i}": Size(width=160 + i % 3 * 20, height=40 + i % 5 * 18) for i in range(count)}


def _dag(count: int, seed: int = 7) -> Edges:
    """Return edges where each node depends on one or two of the forty nodes before it, as in a real pipeline."""
    rng = random.Random(seed)
    sources_of = {i: rng.sample(range(max(0, i - 40), i), k=min(i, 1 + (i % 5 < 2))) for i in range(1, count)}
    return [(f"n{source}", f"n{target}") for target, sources in sources_of.items() for source in sources]


SHAPES: dict[str, tuple[int, Edges]] = {
    "empty": (0, []),
    "one node": (1, []),
    "no edges": (5, []),
    "chain": (30, [(f"n{i}", f"n{i + 1}") for i in range(29)]),
    "diamond": (4, [("n0", "n1"), ("n0", "n2"), ("n1", "n3"), ("n2", "n3")]),
    "fan": (40, [("n0", f"n{i}") for i in range(1, 40)]),
    "pipeline": (120, _dag(120)),
    "loop on itself": (2, [("n0", "n0"), ("n0", "n1")]),
    "cycle of two": (2, [("n0", "n1"), ("n1", "n0")]),
    "cycle of all": (50, [(f"n{i}", f"n{(i + 1) % 50}") for i in range(50)]),
    "unknown nodes": (2, [("n0", "n1"), ("n0", "nowhere"), ("nobody", "n1")]),
    "double edges": (2, [("n0", "n1"), ("n0", "n1")]),
}
shapes = pytest.mark.parametrize(("count", "edges"), SHAPES.values(), ids=SHAPES.keys())


def _overlap(a: Box, b: Box) -> bool:
    return a.x < b.right and b.x < a.right and a.y < b.bottom and b.y < a.bottom


@shapes
def test_places_every_node_without_overlaps(count: int, edges: Edges) -> None:
    boxes = compute_layered_layout(_sizes(count), edges)
    assert boxes.keys() == _sizes(count).keys()
    assert [pair for pair in combinations(boxes, 2) if _overlap(boxes[pair[0]], boxes[pair[1]])] == []


@shapes
def test_is_deterministic(count: int, edges: Edges) -> None:
    assert compute_layered_layout(_sizes(count), edges) == compute_layered_layout(_sizes(count), list(edges))


@pytest.mark.parametrize("name", ["chain", "diamond", "fan", "pipeline"])
def test_data_flows_from_left_to_right(name: str) -> None:
    count, edges = SHAPES[name]
    boxes = compute_layered_layout(_sizes(count), edges)
    assert all(boxes[source].right < boxes[target].x for source, target in edges)


def test_spacing_between_neighbours() -> None:
    spacing = Spacing(layer=50, node=12)
    boxes = compute_layered_layout({name: Size(100, 30) for name in "abc"}, [("a", "b"), ("a", "c")], spacing)
    assert boxes["b"].x - boxes["a"].right == spacing.layer
    assert abs(boxes["b"].y - boxes["c"].y) == 30 + spacing.node


def test_centres_a_node_between_its_neighbours() -> None:
    boxes = compute_layered_layout(
        {name: Size(100, 30) for name in "abcd"}, [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    )
    middle = {name: box.y + box.height / 2 for name, box in boxes.items()}
    assert middle["a"] == middle["d"] == pytest.approx((middle["b"] + middle["c"]) / 2)


def test_places_a_source_next_to_its_first_consumer() -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "d"), ("y", "z"), ("z", "d")]
    boxes = compute_layered_layout({name: Size(100, 30) for name in "abcdyz"}, edges)
    assert (boxes["y"].x, boxes["z"].x) == (boxes["b"].x, boxes["c"].x)


def test_a_chain_of_5000_nodes_does_not_exceed_the_stack() -> None:
    boxes = compute_layered_layout(_sizes(5000), [(f"n{i}", f"n{i + 1}") for i in range(4999)])
    assert len({box.x for box in boxes.values()}) == 5000


@pytest.mark.parametrize(
    ("hops", "expected"),
    [(0, {"c"}), (1, {"b", "c", "d"}), (2, {"a", "b", "c", "d", "e"}), (9, {"a", "b", "c", "d", "e"})],
)
def test_neighbourhood_excludes_siblings(hops: int, expected: set[str]) -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("b", "sibling"), ("stranger", "d")]
    assert set(nodes_within_hops("c", edges, hops)) == expected
