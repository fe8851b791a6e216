"""Aliases of datasets: union-find over symlinks, with one canonical name per group."""

from __future__ import annotations

from collections.abc import Iterable

Name = tuple[str, str]


def resolve_aliases(symlinks: Iterable[tuple[Name, Name]]) -> dict[Name, Name]:
    """Map each name to its canonical name, given pairs of a dataset and a symlink of it.

    The canonical name is the smallest name of the group that has a symlinks facet: the target of a symlink alone is
    never canonical. Names without aliases are left out.
    """
    pairs = list(symlinks)
    forest: dict[Name, Name] = {}
    for owner, alias in pairs:
        _union(forest, owner, alias)
    canonical_by_root: dict[Name, Name] = {}
    for owner, _ in pairs:
        root = _root(forest, owner)
        canonical_by_root[root] = min(canonical_by_root.get(root, owner), owner)
    canonical = {name: canonical_by_root[_root(forest, name)] for name in list(forest)}
    shared = {node for name, node in canonical.items() if name != node}
    return {name: node for name, node in canonical.items() if node in shared}


def _union(forest: dict[Name, Name], left: Name, right: Name) -> None:
    forest.setdefault(left, left)
    forest.setdefault(right, right)
    forest[_root(forest, left)] = _root(forest, right)


def _root(forest: dict[Name, Name], name: Name) -> Name:
    while forest[name] != name:
        # Path halving.
        forest[name] = forest[forest[name]]
        name = forest[name]
    return name
