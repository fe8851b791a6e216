"""Records of operations: one per call of the user that made or changed a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from clew.capture.provenance import Provenance, through
from clew.capture.versions import FrameVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from types import CodeType

Kind = Literal[
    "selection",
    "aggregation",
    "join",
    "creation",
    "io",
    "assignment",
    "concat",
    "reshape",
    "sort",
    "window",
    "transformation",
    "unknown",
]


class SameLabels(Struct, eq=False):
    """Edges that need no list: every output label comes from the input's column of that label.

    Kept symbolic because a frame may have thousands of columns; expanded off the hot path.
    """

    source: FrameVersion
    flags: int = 1
    changed: dict[Hashable, Provenance] | None = None

    def of(self, label: Hashable) -> Provenance:
        """The provenance of one output column."""
        if self.changed is not None and label in self.changed:
            return self.changed[label]
        if not self.source.has(label):
            return {}
        # What is done to the columns of a frame leaves its index as it was.
        is_level = label in self.source.index_names and label not in self.source.columns
        return through(self.source.field(label), 1 if is_level else self.flags)


class Listed(Struct, eq=False):
    """Edges given for each output label."""

    by_label: dict[Hashable, Provenance]

    def of(self, label: Hashable) -> Provenance:
        """The provenance of one output column."""
        return self.by_label.get(label, {})


class Deferred(Listed):
    """Edges that are worked out when they are first asked for, all of them from columns of the record's parents.

    Of most rounds of a loop nobody ever asks.
    """

    work: Callable[..., dict[Hashable, Provenance]]
    given: tuple[Any, ...]
    found: dict[Hashable, Provenance] | None = None

    @classmethod
    def by(cls, work: Callable[..., dict[Hashable, Provenance]], *given: Any) -> Deferred:
        """Edges that `work` finds; what it is given must neither change nor hold data."""
        return cls({}, work, given)

    @property  # type: ignore[misc]
    def by_label(self) -> dict[Hashable, Provenance]:  # type: ignore[override]
        """The provenance of every column."""
        if self.found is None:
            self.found = self.work(*self.given)
        return self.found


class Record(Struct, eq=False):
    """One operation: what went in, what came out, and where in the code it stands."""

    method: str
    kind: Kind
    # Only until it is told: a version knows its record, and the two must not keep each other alive.
    output: FrameVersion | None
    edges: SameLabels | Listed
    # What holds for the whole output: filters, joins, groupings, sorting.
    rows: Provenance = {}
    # The frames whose rows the output is made of; what held for them as a whole holds for the output.
    parents: tuple[FrameVersion, ...] = ()
    is_module_function: bool = False
    code: CodeType | None = None
    instruction: int = 0
    started: float = 0.0
    duration: float = 0.0
    overhead: float = 0.0
    count: int = 1
    is_pending: bool = False
    read_from: FrameVersion | None = None
    error: tuple[str, str] | None = None
    written_types: dict[Hashable, str] | None = None
    _shape: list[Any] | None = None

    def fields_of(self, version: FrameVersion) -> dict[Hashable, Provenance]:
        """The provenance of every column and named index level of the version that was made."""
        return {label: self.edges.of(label) for label in version.labels()}

    def inputs(self) -> list[FrameVersion]:
        """The versions that went in, parents first, each once."""
        seen: dict[FrameVersion, None] = {}
        for parent in self.parents:
            if parent.substitutes is None:
                seen[parent] = None
            else:
                seen.update(dict.fromkeys(grounded(parent)))
        if self.read_from is not None:
            seen[self.read_from] = None
        edges = self.edges
        if isinstance(edges, SameLabels):
            if edges.source not in seen:
                seen.update(dict.fromkeys(grounded(edges.source)))
            fields = edges.changed
        else:
            fields = edges.by_label if type(edges) is not Deferred else None
        if fields:
            for provenance in fields.values():
                for version, _ in provenance:
                    seen[version] = None
        for version, _ in self.rows:
            seen[version] = None
        return list(seen)

    def shape(self) -> list[Any]:
        """What two rounds of a loop must share to be told as one: the place, the files, where the inputs were made."""
        if self._shape is None:
            found: list[Any] = [
                self.method,
                self.error is None,
                self.output.dataset if self.output is not None else None,
            ]
            for version in self.inputs():
                maker = version.made_by
                if version.dataset is not None:
                    found.append(version.dataset)
                elif maker is None:
                    found.append(version.uid)
                else:
                    found += (maker.code, maker.instruction)
            self._shape = found
        return self._shape

    def absorb(self, later: Record) -> None:
        """Count a later round of the same operation."""
        self.count += 1
        self.duration += later.duration
        self.overhead += later.overhead
        if later.output is not None:
            later.output.repeats = self.output
            later.output = None


def grounded(version: FrameVersion) -> list[FrameVersion]:
    """The real versions behind one that stands in for others."""
    if version.substitutes is None:
        return [version]
    found: dict[FrameVersion, None] = {}
    if version.base is not None:
        found.update(dict.fromkeys(grounded(version.base)))
    for provenance in version.substitutes.values():
        found.update(dict.fromkeys(source for source, _ in provenance))
    return list(found)
