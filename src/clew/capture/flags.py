"""How a field depends on another: a set of OpenLineage transformations, kept as bits."""

from __future__ import annotations

from typing import Final

IDENTITY: Final = 1
TRANSFORMATION: Final = 2
AGGREGATION: Final = 4
FILTER: Final = 8
JOIN: Final = 16
GROUP_BY: Final = 32
SORT: Final = 64
WINDOW: Final = 128
CONDITIONAL: Final = 256
# Marks of certainty: what happens inside a function is unknown; what fed a value was guessed from what was read.
OPAQUE: Final = 512
INFERRED: Final = 1024

DIRECT: Final = IDENTITY | TRANSFORMATION | AGGREGATION
MARKS: Final = OPAQUE | INFERRED
INDIRECT: Final = FILTER | JOIN | GROUP_BY | SORT | WINDOW | CONDITIONAL

SUBTYPES: Final = {
    IDENTITY: ("DIRECT", "IDENTITY"),
    TRANSFORMATION: ("DIRECT", "TRANSFORMATION"),
    AGGREGATION: ("DIRECT", "AGGREGATION"),
    FILTER: ("INDIRECT", "FILTER"),
    JOIN: ("INDIRECT", "JOIN"),
    GROUP_BY: ("INDIRECT", "GROUP_BY"),
    SORT: ("INDIRECT", "SORT"),
    WINDOW: ("INDIRECT", "WINDOW"),
    CONDITIONAL: ("INDIRECT", "CONDITIONAL"),
}


def _over(outer: int, inner: int) -> int:
    """Every direct step of `outer` after every direct step of `inner`: the stronger of the two remains."""
    bits = (IDENTITY, TRANSFORMATION, AGGREGATION)
    return sum({max(one, two) for one in bits if outer & one for two in bits if inner & two})


# COMPOSED[outer][inner] for direct bit sets: a table, since it is read on the hot path.
COMPOSED: Final = tuple(tuple(_over(outer, inner) for inner in range(8)) for outer in range(8))


def transformations(flags: int) -> list[tuple[str, str]]:
    """Type and subtype of every bit that is set."""
    return [names for bit, names in SUBTYPES.items() if flags & bit]
