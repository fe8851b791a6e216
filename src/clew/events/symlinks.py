"""Parser of the symlinks facet: aliases of a dataset."""

from __future__ import annotations

from typing import Final

from clew.events.facet_values import cached_by_bytes, decode_facet, get_objects, get_str
from clew.events.nodes import Name

SYMLINKS_FACET: Final = "symlinks"


@cached_by_bytes
def parse_symlinks(facet: bytes) -> tuple[Name, ...]:
    """Parse the distinct aliases, sorted; empty if the facet was deleted."""
    names = (
        (get_str(item, "namespace"), get_str(item, "name")) for item in get_objects(decode_facet(facet), "identifiers")
    )
    return tuple(sorted({(namespace, name) for namespace, name in names if namespace is not None and name is not None}))
