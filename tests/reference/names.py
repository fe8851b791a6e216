"""Reference implementation: canonical names of datasets by their current symlinks."""

from __future__ import annotations

from tests.reference.events import Event, Name, in_merge_order, is_deleted, parse_json, string_at
from tests.reference.lineage import object_items


def canonical_names(events: list[Event]) -> dict[Name, Name]:
    """Return the canonical name of each aliased name: the least name with symlinks of its group."""
    groups: list[set[Name]] = []
    links = symlinks(events)
    for linked_name, others in links.items():
        aliases = {linked_name, *others}
        disjoint = [group for group in groups if not group & aliases]
        groups = [*disjoint, aliases.union(*(group for group in groups if group & aliases))]
    return {
        name: min(name for name in group if links.get(name)) for group in groups if len(group) > 1 for name in group
    }


def symlinks(events: list[Event]) -> dict[Name, set[Name]]:
    """Return the aliases of each dataset by its last symlinks facet."""
    last = {
        dataset.key: dataset.facets["symlinks"]
        for event in in_merge_order(events)
        for dataset in event.datasets
        if "symlinks" in dataset.facets
    }
    return {name: identifiers(facet) for name, facet in last.items()}


def identifiers(facet: str) -> set[Name]:
    value = parse_json(facet)
    listed = object_items(value.get("identifiers")) if isinstance(value, dict) and not is_deleted(facet) else []
    pairs = [(string_at(item, "namespace"), string_at(item, "name")) for item in listed]
    return {(namespace, name) for namespace, name in pairs if namespace is not None and name is not None}
