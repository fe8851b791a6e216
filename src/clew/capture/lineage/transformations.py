"""Transformation flags: the OpenLineage transformations of an edge as a bit set."""

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
# Certainty marks. OPAQUE: a function with unknown effect. INFERRED: sources inferred from what was read.
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


def _compose_direct(outer: int, inner: int) -> int:
    """Compose direct steps: for each pair the stronger one remains."""
    bits = (IDENTITY, TRANSFORMATION, AGGREGATION)
    return sum({max(first, second) for first in bits if outer & first for second in bits if inner & second})


# COMPOSED[outer][inner] for direct bit sets; precomputed for the hot path.
COMPOSED: Final = tuple(tuple(_compose_direct(outer, inner) for inner in range(8)) for outer in range(8))


def stronger_step(inner: int, outer: int) -> int:
    """Compose the steps of nested expressions: an indirect one remains, of two direct ones the stronger."""
    if not outer & DIRECT:
        return outer
    return inner if not inner & DIRECT else max(inner, outer)


def transformations(flags: int) -> list[tuple[str, str]]:
    """Return type and subtype of every bit that is set."""
    return [names for bit, names in SUBTYPES.items() if flags & bit]
