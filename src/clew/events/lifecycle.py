"""The lifecycleStateChange facet: what has become of a dataset."""

from __future__ import annotations

from typing import Final, NamedTuple

from clew.events.facet_values import remembered, text_in, value_of

FACET: Final = "lifecycleStateChange"
DROP: Final = "DROP"
RENAME: Final = "RENAME"


class LifecycleChange(NamedTuple):
    """A change, and the name that the dataset had before if it was renamed."""

    state: str
    previous_namespace: str | None
    previous_name: str | None

    @property
    def previous(self) -> tuple[str, str] | None:
        """The name before, if it is there in full."""
        namespace, name = self.previous_namespace, self.previous_name
        return None if namespace is None or name is None else (namespace, name)


@remembered
def lifecycle_change_of(facet: bytes) -> LifecycleChange | None:
    """Read a facet; None if it says nothing, or was deleted."""
    value = value_of(facet)
    state = text_in(value, FACET)
    if not state:
        return None
    before = text_in(value, "previousIdentifier", "namespace"), text_in(value, "previousIdentifier", "name")
    is_renamed = state == RENAME and None not in before
    return LifecycleChange(state, *(before if is_renamed else (None, None)))
