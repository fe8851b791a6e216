"""What is wrong with a facet: it is kept, and says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, count
from operator import not_

import pyarrow as pa

from clew.events.facet_shapes import Flaw, Shape, flaw_of, sound_opening
from clew.lake.texts import Texts

# One producer writes facets of one name alike. Where so many begin differently, or one so late, each is looked at.
_MOST_OPENINGS = 16
_LONGEST_OPENING = 1024


class Flaws:
    """Finds the flaws of one table's facets.

    Sound facets are not opened: how others of their name began tells that they are sound.
    """

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self._shapes = shapes
        self._openings: defaultdict[str, tuple[bytes, ...]] = defaultdict(tuple)

    def of(self, names: Sequence[str], facets: Texts) -> pa.Array:
        """The flaw of each facet, null where it is sound; those of which no shape is known need only be objects."""
        found = dict(self._found(names, facets))
        return pa.array(map(found.get, range(len(names))), pa.string()) if found else pa.nulls(len(names), pa.string())

    def _found(self, names: Sequence[str], facets: Texts) -> Iterator[tuple[int, str]]:
        # Nothing is looked at before its turn, so that each gains by all that stand before it.
        openings = map(self._openings.__getitem__, names)
        are_known = map(facets.joined.startswith, openings, facets.starts.tolist())
        for place in compress(count(), map(not_, are_known)):
            flaw = self._flaw(names[place], facets[place])
            if flaw is not None:
                yield place, flaw

    def _flaw(self, name: str, facet: bytes) -> str | None:
        shape = self._shapes.get(name)
        # Facets are slices of a document that was read as JSON, without space around them: the first byte tells.
        if not facet.startswith(b"{"):
            return Flaw.NULL if facet == b"null" else Flaw.NOT_AN_OBJECT
        flaw = None if shape is None else flaw_of(facet, shape)
        if flaw is None:
            self._learn(name, facet, shape)
        return flaw

    def _learn(self, name: str, facet: bytes, shape: Shape | None) -> None:
        known = self._openings[name]
        if len(known) < _MOST_OPENINGS:
            opening = "{" if shape is None else sound_opening(facet.decode(), shape)
            if opening is not None and len(opening) <= _LONGEST_OPENING:
                self._openings[name] = (*known, opening.encode())
