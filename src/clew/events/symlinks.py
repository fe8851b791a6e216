"""The symlinks facet: other names of the dataset that bears it."""

from __future__ import annotations

from typing import Final

from clew.events.facet_values import objects_in, remembered, text_in, value_of
from clew.events.nodes import Name

FACET: Final = "symlinks"


@remembered
def identifiers_of(facet: bytes) -> tuple[Name, ...]:
    """The other names, each once and in order; none if the facet was deleted."""
    found = ((text_in(item, "namespace"), text_in(item, "name")) for item in objects_in(value_of(facet), "identifiers"))
    return tuple(sorted({(namespace, name) for namespace, name in found if namespace is not None and name is not None}))
