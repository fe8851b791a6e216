"""Tests of resolving aliases of datasets to canonical names."""

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
    ("pairs", "canonical_names"),
    [
        ([], {}),
        ([(A, A)], {}),
        ([(A, B)], {A: A, B: A}),
        # The dataset with the facet gives the canonical name, even if it is the greater one.
        ([(B, A)], {A: B, B: B}),
        ([(A, B), (B, A)], {A: A, B: A}),
        # A chain, and two datasets with a common symlink.
        ([(B, C), (C, D), (A, B)], {A: A, B: A, C: A, D: A}),
        ([(C, D), (B, D)], {B: B, C: B, D: B}),
        ([(A, B), (C, D)], {A: A, B: A, C: C, D: C}),
    ],
)
def test_resolve_aliases(pairs: list[tuple[Name, Name]], canonical_names: dict[Name, Name]) -> None:
    assert resolve_aliases(pairs) == canonical_names


@given(pairs=symlinks, data=st.data())
def test_resolve_aliases_is_independent_of_order(pairs: list[tuple[Name, Name]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(pairs)) + data.draw(st.permutations(pairs))
    assert resolve_aliases(shuffled) == resolve_aliases(pairs)


@given(pairs=symlinks)
def test_linked_names_have_one_canonical_name_with_a_symlinks_facet(pairs: list[tuple[Name, Name]]) -> None:
    canonical_names = resolve_aliases(pairs)
    assert all(canonical_names.get(name, name) == canonical_names.get(alias, alias) for name, alias in pairs)
    assert set(canonical_names.values()) <= {name for name, _ in pairs}
    assert all(canonical_names[canonical_name] == canonical_name for canonical_name in canonical_names.values())


def test_resolve_aliases_follows_long_chains() -> None:
    chain = [("n", f"{number:05}") for number in range(20_000)]
    canonical_names = resolve_aliases(pairwise(chain))
    assert set(canonical_names.values()) == {chain[0]}
