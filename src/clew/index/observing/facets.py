"""The facets that count: of each entity and name the last that was seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter

from clew.events.facet_order import FacetOrder
from clew.events.openlineage import FACET_ALIASES, Facets
from clew.index.bodies import Packer, StoredFacet
from clew.index.changes import FacetsRow
from clew.index.observing.sighting import Sighting


class SeenFacets:
    """What events said of each entity, with their times and positions; it is merged when all has been seen."""

    def __init__(self, dictionary: bytes | None, order: FacetOrder = FacetOrder.RECEIVED) -> None:
        self._packer = Packer(dictionary)
        self._is_by_time = order is FacetOrder.EVENT_TIME
        self._said: defaultdict[tuple[str, str], list[tuple[int, int, Facets]]] = defaultdict(list)

    def note(self, kind: str, key: str, facets: Facets | None, sighting: Sighting) -> None:
        """Take the facets that an event gives to an entity."""
        if facets:
            self._said[kind, key].append((sighting.at, sighting.seq, facets))

    def rows(self) -> Iterator[FacetsRow]:
        """One row per entity."""
        pack = self._packer.pack
        for (kind, key), said in self._said.items():
            last_seq = said[-1][1]
            if self._is_by_time:
                said.sort(key=itemgetter(0))
            yield FacetsRow(kind, key, last_seq, pack(_last(said)))


def _last(said: list[tuple[int, int, Facets]]) -> list[StoredFacet]:
    found: dict[str, StoredFacet] = {}
    for at, seq, facets in reversed(said):
        # Most often the last event says all that earlier ones did.
        if facets.keys() <= found.keys():
            continue
        for name, facet in reversed(facets.items()):
            known_as = FACET_ALIASES.get(name, name)
            if known_as not in found:
                found[known_as] = StoredFacet.of(known_as, seq, at, bytes(facet))
    return list(found.values())
