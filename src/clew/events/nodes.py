"""Datasets that have several names: which names mean the same node, and what the node is called."""

from __future__ import annotations

from collections.abc import Iterable

Name = tuple[str, str]


def nodes_of(symlinks: Iterable[tuple[Name, Name]]) -> dict[Name, Name]:
    """The node of each name, from pairs of a dataset and another name that it bears; a name alone is its own node.

    A node is called by the least of its names that bears others: a mere symlink never gives the name.
    """
    pairs = list(symlinks)
    forest: dict[Name, Name] = {}
    for bearer, other in pairs:
        _join(forest, bearer, other)
    called: dict[Name, Name] = {}
    for bearer, _ in pairs:
        root = _root(forest, bearer)
        called[root] = min(called.get(root, bearer), bearer)
    nodes = {name: called[_root(forest, name)] for name in list(forest)}
    shared = {node for name, node in nodes.items() if name != node}
    return {name: node for name, node in nodes.items() if node in shared}


def _join(forest: dict[Name, Name], one: Name, other: Name) -> None:
    forest.setdefault(one, one)
    forest.setdefault(other, other)
    forest[_root(forest, one)] = _root(forest, other)


def _root(forest: dict[Name, Name], name: Name) -> Name:
    while forest[name] != name:
        # Halving the path keeps long chains of symlinks from being walked again and again.
        forest[name] = forest[forest[name]]
        name = forest[name]
    return name
