"""Which names of datasets mean the same, by the symlinks that count."""

from __future__ import annotations

from tests.reference.events import Event, Name, in_turn, is_deleted, opened, said
from tests.reference.lineage import objects


def nodes(events: list[Event]) -> dict[Name, Name]:
    """The node of each name that has others; of the names that bear symlinks the least gives the name."""
    groups: list[set[Name]] = []
    bearers = symlinks(events)
    for bearer, others in bearers.items():
        joined = {bearer, *others}
        apart = [group for group in groups if not group & joined]
        groups = [*apart, joined.union(*(group for group in groups if group & joined))]
    return {
        name: min(name for name in group if bearers.get(name)) for group in groups if len(group) > 1 for name in group
    }


def symlinks(events: list[Event]) -> dict[Name, set[Name]]:
    """The other names that each dataset bears by its last facet."""
    last = {
        dataset.key: dataset.facets["symlinks"]
        for event in in_turn(events)
        for dataset in event.datasets
        if "symlinks" in dataset.facets
    }
    return {name: identifiers(facet) for name, facet in last.items()}


def identifiers(facet: str) -> set[Name]:
    value = opened(facet)
    listed = objects(value.get("identifiers")) if isinstance(value, dict) and not is_deleted(facet) else []
    found = [(said(item, "namespace"), said(item, "name")) for item in listed]
    return {(namespace, name) for namespace, name in found if namespace is not None and name is not None}
