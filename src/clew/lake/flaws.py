"""What is wrong with a facet: it is kept, and says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, count
from operator import not_

import pyarrow as pa

from clew.events.facet_shapes import Flaw, Shape, flaw_of, sound_opening
from clew.lake.texts import Texts

# One producer writes facets of one name alike. Where so many begin differently, each is looked at.
_MOST_OPENINGS = 16


def flaws(names: Sequence[str], facets: Texts, shapes: Mapping[str, Shape]) -> pa.Array:
    """The flaw of each facet, null where it is sound; those of which no shape is known need only be objects."""
    found = dict(_flawed(names, facets, shapes))
    return pa.array(map(found.get, range(len(names))), pa.string()) if found else pa.nulls(len(names), pa.string())


def _flawed(names: Sequence[str], facets: Texts, shapes: Mapping[str, Shape]) -> Iterator[tuple[int, str]]:
    """Sound facets are not opened: how others of their name began tells that they are sound."""
    openings: defaultdict[str, tuple[bytes, ...]] = defaultdict(tuple)
    # Nothing is looked at before its turn, so that each gains by all that stand before it.
    are_known = map(facets.joined.startswith, map(openings.__getitem__, names), facets.starts.tolist())
    for place in compress(count(), map(not_, are_known)):
        name, facet = names[place], facets[place]
        known, shape = openings[name], shapes.get(name)
        flaw = _flaw(facet, shape)
        if flaw is not None:
            yield place, flaw
        elif len(known) < _MOST_OPENINGS:
            opening = "{" if shape is None else sound_opening(facet.decode(), shape)
            openings[name] = known if opening is None else (*known, opening.encode())


def _flaw(facet: bytes, shape: Shape | None) -> str | None:
    # Facets are slices of a document that was read as JSON, without space around them: the first byte tells.
    if not facet.startswith(b"{"):
        return Flaw.NULL if facet == b"null" else Flaw.NOT_AN_OBJECT
    return None if shape is None else flaw_of(facet, shape)
