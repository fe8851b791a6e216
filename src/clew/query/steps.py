"""Sources of a column, grouped by the operation that read them."""

from __future__ import annotations

from msgspec import Struct

from clew.query.model import LineageStep

# Phrases for INDIRECT transformation subtypes.
INDIRECT_PHRASES = {
    "FILTER": "filtered by",
    "JOIN": "joined on",
    "GROUP_BY": "grouped by",
    "SORT": "sorted by",
    "WINDOW": "windowed by",
    "CONDITIONAL": "depending on",
}
DEFAULT_INDIRECT_PHRASE = "depending on"


class OperationStep(Struct, frozen=True):
    """A column, and its sources read by one operation."""

    column: LineageStep
    sources: tuple[LineageStep, ...]

    @property
    def direct(self) -> tuple[LineageStep, ...]:
        """DIRECT sources."""
        return tuple(source for source in self.sources if not is_indirect(source))

    @property
    def indirect(self) -> tuple[LineageStep, ...]:
        """INDIRECT sources."""
        return tuple(filter(is_indirect, self.sources))


def group_by_operation(step: LineageStep) -> list[OperationStep]:
    """Group the sources of a column by operation."""
    groups: dict[str | None, list[LineageStep]] = {}
    for source in step.upstream:
        groups.setdefault(None if source.edge is None else source.edge.run_uuid, []).append(source)
    return [OperationStep(step, tuple(group)) for group in groups.values()]


def is_indirect(step: LineageStep) -> bool:
    """Return whether the edge of a step is INDIRECT."""
    return step.edge is not None and step.edge.type == "INDIRECT"


def indirect_phrase(step: LineageStep) -> str:
    """Return the phrase for the INDIRECT subtype, such as `filtered by`."""
    subtype = None if step.edge is None else step.edge.subtype
    return INDIRECT_PHRASES.get(subtype or "", DEFAULT_INDIRECT_PHRASE)
