"""What is wrong with a facet: it is kept, and says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from clew.events.facet_shapes import Flaw, Shape, flaw_of, sound_opening

# One producer writes facets of one name alike. Where so many begin differently, each is looked at.
_MOST_OPENINGS = 16


def flaws(names: pa.Array, facets: pa.Array, shapes: Mapping[str, Shape]) -> pa.Array:
    """The flaw of each facet, null where it is sound; those of which no shape is known need only be objects."""
    # Facets are slices of a document that was read as JSON, without space around them: the first byte tells.
    is_object = pc.starts_with(facets, "{")
    found = dict(_no_objects(facets, is_object))
    encoded = names.dictionary_encode()
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        if name in shapes:
            is_named = pc.and_(is_object, pc.equal(encoded.indices, code))
            found.update(_misshapen(facets, is_named, shapes[name]))
    return pa.array(map(found.get, range(len(facets))), pa.string()) if found else pa.nulls(len(facets), pa.string())


def _no_objects(facets: pa.Array, is_object: pa.Array) -> Iterator[tuple[int, str]]:
    for place in pc.indices_nonzero(pc.invert(is_object)).to_pylist():
        yield place, Flaw.NULL if facets[place].as_py() == "null" else Flaw.NOT_AN_OBJECT


def _misshapen(facets: pa.Array, is_named: pa.Array, shape: Shape) -> Iterator[tuple[int, str]]:
    for place in _in_doubt(facets, is_named, shape):
        flaw = flaw_of(facets[place].as_buffer().to_pybytes(), shape)
        if flaw is not None:
            yield place, flaw


def _in_doubt(facets: pa.Array, is_named: pa.Array, shape: Shape) -> Iterator[int]:
    """Those whose beginning does not tell that they are sound: opening each would cost a sixth of making all rows."""
    places, left = pc.indices_nonzero(is_named), facets.filter(is_named)
    for _ in range(_MOST_OPENINGS):
        if not len(left):
            return
        opening = sound_opening(left[0].as_py(), shape)
        if opening is None:
            yield places[0].as_py()
            places, left = places[1:], left[1:]
        else:
            begins_otherwise = pc.invert(pc.starts_with(left, opening))
            places, left = places.filter(begins_otherwise), left.filter(begins_otherwise)
    yield from places.to_pylist()
