"""The facets that count: of each entity and name the last that was seen."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from clew.events.facet_order import FacetOrder
from clew.events.openlineage import FACET_ALIASES, Facets
from clew.index.bodies import Packer
from clew.index.changes import FacetRow
from clew.index.observing.sighting import Sighting

_BEFORE_ALL = (0, -(2**63))


class SeenFacets:
    """Facets by kind of entity, entity and name."""

    def __init__(self, dictionary: bytes | None, order: FacetOrder = FacetOrder.RECEIVED) -> None:
        self._packer = Packer(dictionary)
        self._is_by_time = order is FacetOrder.EVENT_TIME
        self._last: dict[tuple[str, str, str], tuple[int, int, Raw]] = {}

    def note(self, kind: str, key: str, facets: Facets | None, sighting: Sighting) -> None:
        """Take the facets that an event gives to an entity."""
        # Spec: a facet of the same name replaces the earlier one whole: last wins, no deep merge.
        if facets:
            for name, facet in facets.items():
                if self._is_by_time and self._last.get((kind, key, name), _BEFORE_ALL)[1] > sighting.at:
                    continue
                self._last[kind, key, name] = sighting.seq, sighting.at, facet

    def rows(self) -> Iterator[FacetRow]:
        """One row per entity and name."""
        pack = self._packer.pack
        return (
            FacetRow(kind, key, FACET_ALIASES.get(name, name), seq, at, pack(bytes(facet)))
            for (kind, key, name), (seq, at, facet) in self._last.items()
        )
