"""Current facets: the latest facet per entity and name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter

from clew.events.facet_order import FacetOrder
from clew.events.openlineage import FACET_ALIASES, Facets
from clew.index.bodies import FacetEncoder, StoredFacet
from clew.index.changes import FacetsRow
from clew.index.observing.sighting import EventContext


class FacetCollector:
    """Collect the facets of each entity with event time and position; they are merged at the end."""

    def __init__(self, dictionary: bytes | None, order: FacetOrder = FacetOrder.RECEIVED) -> None:
        self._encoder = FacetEncoder(dictionary)
        self._is_by_time = order is FacetOrder.EVENT_TIME
        self._facets: defaultdict[tuple[str, str], list[tuple[int, int, Facets]]] = defaultdict(list)

    def add(self, kind: str, key: str, facets: Facets | None, context: EventContext) -> None:
        """Add the facets of an entity in one event."""
        if facets:
            self._facets[kind, key].append((context.event_time, context.seq, facets))

    def rows(self) -> Iterator[FacetsRow]:
        """Yield one row per entity."""
        encode = self._encoder.encode
        for (kind, key), history in self._facets.items():
            last_seq = history[-1][1]
            if self._is_by_time:
                history.sort(key=itemgetter(0))
            yield FacetsRow(kind, key, last_seq, encode(_latest_facets(history)))


def _latest_facets(history: list[tuple[int, int, Facets]]) -> list[StoredFacet]:
    latest: dict[str, StoredFacet] = {}
    for event_time, seq, facets in reversed(history):
        # Usually the last event repeats all facets of earlier ones.
        if facets.keys() <= latest.keys():
            continue
        for name, facet in reversed(facets.items()):
            canonical_name = FACET_ALIASES.get(name, name)
            if canonical_name not in latest:
                latest[canonical_name] = StoredFacet.of(canonical_name, seq, event_time, bytes(facet))
    return list(latest.values())
