"""What is wrong with a facet: it is kept, and says so."""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc


class Flaw(StrEnum):
    """Why a facet is not sound. Spec: a facet is an object."""

    NULL = "null"
    NOT_AN_OBJECT = "not_an_object"


def flaws(facets: pa.Array) -> pa.Array:
    """The flaw of each facet, null where it is sound."""
    # Facets are slices of a document that was read as JSON, without space around them: the first byte tells.
    is_object = pc.starts_with(facets, "{")
    if pc.all(is_object).as_py():
        return pa.nulls(len(facets), pa.string())
    flaw = pc.if_else(pc.equal(facets, "null"), Flaw.NULL.value, Flaw.NOT_AN_OBJECT.value)
    return pc.if_else(is_object, pa.scalar(None, pa.string()), flaw)
