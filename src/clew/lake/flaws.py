"""What is wrong with a facet: it is kept, and says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
    openings: dict[str, tuple[bytes, ...]] = {}
    begins = facets.joined.startswith
    for place, (name, start) in enumerate(zip(names, facets.starts, strict=False)):
        known = openings.get(name, ())
        if known and begins(known, start):
            continue
        facet, shape = facets[place], shapes.get(name)
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
