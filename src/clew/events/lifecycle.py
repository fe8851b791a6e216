"""Parser of the lifecycleStateChange facet."""

from __future__ import annotations

from typing import Final, NamedTuple

from clew.events.facet_values import cached_by_bytes, decode_facet, get_str

LIFECYCLE_FACET: Final = "lifecycleStateChange"
DROP: Final = "DROP"
RENAME: Final = "RENAME"


class LifecycleChange(NamedTuple):
    """A lifecycle state change, with the previous name of a renamed dataset."""

    state: str
    previous_namespace: str | None
    previous_name: str | None

    @property
    def previous(self) -> tuple[str, str] | None:
        """Previous namespace and name, if both are present."""
        namespace, name = self.previous_namespace, self.previous_name
        return None if namespace is None or name is None else (namespace, name)


@cached_by_bytes
def parse_lifecycle_change(facet: bytes) -> LifecycleChange | None:
    """Parse a facet; None if it has no state, or was deleted."""
    value = decode_facet(facet)
    state = get_str(value, LIFECYCLE_FACET)
    if not state:
        return None
    before = get_str(value, "previousIdentifier", "namespace"), get_str(value, "previousIdentifier", "name")
    is_renamed = state == RENAME and None not in before
    return LifecycleChange(state, *(before if is_renamed else (None, None)))
