"""A hop's sources, grouped by the operation that took them: the step that a person reads as one."""

from __future__ import annotations

from msgspec import Struct

from clew.query.model import Hop

# How a sentence says that a column had a part in something without giving its value.
INFLUENCES = {
    "FILTER": "filtered by",
    "JOIN": "joined on",
    "GROUP_BY": "grouped by",
    "SORT": "sorted by",
    "WINDOW": "windowed by",
    "CONDITIONAL": "depending on",
}
SOME_INFLUENCE = "depending on"


class Step(Struct, frozen=True):
    """A column, and the sources of it that one operation took."""

    column: Hop
    sources: tuple[Hop, ...]

    @property
    def direct(self) -> tuple[Hop, ...]:
        """The sources whose values went into the column."""
        return tuple(source for source in self.sources if not is_influence(source))

    @property
    def influences(self) -> tuple[Hop, ...]:
        """The sources that only had a say."""
        return tuple(filter(is_influence, self.sources))


def steps(hop: Hop) -> list[Step]:
    """The steps that lead to a column, one per operation."""
    groups: dict[str | None, list[Hop]] = {}
    for source in hop.upstream:
        groups.setdefault(None if source.edge is None else source.edge.run_uuid, []).append(source)
    return [Step(hop, tuple(group)) for group in groups.values()]


def is_influence(hop: Hop) -> bool:
    """Whether a source gave no value."""
    return hop.edge is not None and hop.edge.type == "INDIRECT"


def influence_words(hop: Hop) -> str:
    """How a source had a say: `filtered by`."""
    subtype = None if hop.edge is None else hop.edge.subtype
    return INFLUENCES.get(subtype or "", SOME_INFLUENCE)
