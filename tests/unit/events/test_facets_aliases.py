"""Names that mean the same dataset, and what it is called."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.events.facets import Name, resolve_aliases

A, B, C, D = (("n", letter) for letter in "abcd")
names = st.sampled_from([(space, name) for space in "nm" for name in "abcd"])
symlinks = st.lists(st.tuples(names, names), max_size=10)


@pytest.mark.parametrize(
    ("pairs", "nodes"),
    [
        ([], {}),
        ([(A, A)], {}),
        ([(A, B)], {A: A, B: A}),
        # The one that bears the facet gives the name, be it the greater.
        ([(B, A)], {A: B, B: B}),
        ([(A, B), (B, A)], {A: A, B: A}),
        # A chain, and two that share a symlink.
        ([(B, C), (C, D), (A, B)], {A: A, B: A, C: A, D: A}),
        ([(C, D), (B, D)], {B: B, C: B, D: B}),
        ([(A, B), (C, D)], {A: A, B: A, C: C, D: C}),
    ],
)
def test_nodes(pairs: list[tuple[Name, Name]], nodes: dict[Name, Name]) -> None:
    assert resolve_aliases(pairs) == nodes


@given(pairs=symlinks, data=st.data())
def test_the_order_does_not_matter(pairs: list[tuple[Name, Name]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(pairs)) + data.draw(st.permutations(pairs))
    assert resolve_aliases(shuffled) == resolve_aliases(pairs)


@given(pairs=symlinks)
def test_what_is_linked_is_one_node_that_is_called_by_a_bearer(pairs: list[tuple[Name, Name]]) -> None:
    nodes = resolve_aliases(pairs)
    assert all(nodes.get(one, one) == nodes.get(other, other) for one, other in pairs)
    assert set(nodes.values()) <= {bearer for bearer, _ in pairs}
    assert all(nodes[node] == node for node in nodes.values())


def test_a_long_chain_is_followed_to_its_end() -> None:
    chain = [("n", f"{place:05}") for place in range(20_000)]
    nodes = resolve_aliases(pairwise(chain))
    assert set(nodes.values()) == {chain[0]}
