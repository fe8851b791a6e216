"""Operations on frames: edges, loop folding, files written in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from clew.capture.lineage.datasets import ExternalDataset, buffer_dataset, dataset_at, file_size
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.provenance import Provenance, apply_direct, compose, union
from clew.capture.lineage.transformations import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from types import CodeType


_written: dict[ExternalDataset, FrameVersion] = {}


def external_version(dataset: ExternalDataset) -> FrameVersion:
    """Create a version of a file or a table."""
    version = FrameVersion()
    version.dataset = dataset
    return version


def record_written(version: FrameVersion) -> None:
    """Register the last version written to a file, for lineage by path and for reading it back."""
    if version.dataset is not None:
        version.file_bytes = file_size(version.dataset)
        _written[version.dataset] = version


def forget_written(dataset: ExternalDataset) -> None:
    """Drop the version of a table that was dropped."""
    _written.pop(dataset, None)


def last_written(dataset: ExternalDataset) -> FrameVersion | None:
    """Return the version last written to a file by this process."""
    return _written.get(dataset)


OperationType = Literal[
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


class IdentityEdges(Struct, eq=False):
    """Identity mapping by column name, except for the columns in `changed`.

    Symbolic, because a frame may have thousands of columns; expanded off the hot path.
    """

    source: FrameVersion
    flags: int = 1
    changed: dict[Hashable, Provenance] | None = None

    def of(self, label: Hashable) -> Provenance:
        """Return the provenance of an output column."""
        if self.changed is not None and label in self.changed:
            return self.changed[label]
        if not self.source.has(label):
            return {}
        # Column operations leave the index unchanged.
        is_level = label in self.source.index_names and label not in self.source.columns
        return apply_direct(self.source.field(label), 1 if is_level else self.flags)


class ExplicitEdges(Struct, eq=False):
    """Explicit provenance per output label."""

    by_label: dict[Hashable, Provenance]

    def of(self, label: Hashable) -> Provenance:
        """Return the provenance of an output column."""
        return self.by_label.get(label, {})


class LazyEdges(ExplicitEdges):
    """Edges computed on first access, all of them from columns of the record's parents.

    Most iterations of a loop are never queried.
    """

    compute: Callable[..., dict[Hashable, Provenance]]
    args: tuple[Any, ...]
    cached: dict[Hashable, Provenance] | None = None

    @classmethod
    def from_callable(cls, compute: Callable[..., dict[Hashable, Provenance]], *args: Any) -> LazyEdges:
        """Create edges that call `compute(*args)` on first access; `args` must be immutable and hold no data."""
        return cls({}, compute, args)

    @property  # type: ignore[misc]
    def by_label(self) -> dict[Hashable, Provenance]:  # type: ignore[override]
        """The provenance of every column."""
        if self.cached is None:
            self.cached = self.compute(*self.args)
        return self.cached


class OperationRecord(Struct, eq=False):
    """One operation: inputs, output and code location."""

    method: str
    kind: OperationType
    # Cleared once written to the log: the version references its record, and a cycle would delay freeing both.
    output: FrameVersion | None
    edges: IdentityEdges | ExplicitEdges
    # Dependencies of the whole output: filters, joins, groupings, sorting.
    rows: Provenance = {}
    # Frames whose rows make up the output; their whole-frame dependencies carry over to the output.
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
    # Name of the backend that ran the operation.
    engine: str = "pandas"
    # Used when events are written: the text of a SQL query.
    sql: str | None = None
    # What was read, such as `read_csv(BytesIO)`, if it has no name.
    origin: str | None = None
    _signature: list[Any] | None = None

    def fields_of(self, version: FrameVersion) -> dict[Hashable, Provenance]:
        """Return the provenance of every column and named index level of the output version."""
        return {label: self.edges.of(label) for label in version.labels()}

    def inputs(self) -> list[FrameVersion]:
        """Return the distinct input versions, parents first."""
        seen: dict[FrameVersion, None] = {}
        for parent in self.parents:
            if parent.overrides is None:
                seen[parent] = None
            else:
                seen.update(dict.fromkeys(resolve_version_aliases(parent)))
        if self.read_from is not None:
            seen[self.read_from] = None
        edges = self.edges
        if isinstance(edges, IdentityEdges):
            if edges.source not in seen:
                seen.update(dict.fromkeys(resolve_version_aliases(edges.source)))
            fields = edges.changed
        else:
            fields = edges.by_label if not isinstance(edges, LazyEdges) else None
        if fields:
            for provenance in fields.values():
                for version, _ in provenance:
                    seen[version] = None
        for version, _ in self.rows:
            seen[version] = None
        return list(seen)

    def loop_signature(self) -> list[Any]:
        """Return the key that iterations of a loop share: method, datasets and the code locations of the inputs."""
        if self._signature is None:
            signature: list[Any] = [
                self.method,
                self.error is None,
                self.output.dataset if self.output is not None else None,
            ]
            for version in self.inputs():
                producer = version.made_by
                if version.dataset is not None:
                    signature.append(version.dataset)
                elif producer is None:
                    signature.append(version.uid)
                else:
                    signature += (producer.code, producer.instruction)
            self._signature = signature
        return self._signature

    def merge_iteration(self, later: OperationRecord) -> None:
        """Add a later iteration of the same operation to this record."""
        self.count += 1
        self.duration += later.duration
        self.overhead += later.overhead
        if later.output is not None:
            later.output.first_iteration = self.output
            later.output = None


def read_record(name: str, paths: Iterable[Any], output: FrameVersion) -> OperationRecord:
    """Return the record of reading files: every column comes from the column of the same name."""
    files = [external_version(dataset_at(path) or buffer_dataset(name, path)) for path in paths]
    fields = {label: union(*[{(file, label): IDENTITY} for file in files]) for label in output.columns}
    return OperationRecord(name, "io", output, ExplicitEdges(fields), read_from=files[0] if files else None)


def write_record(name: str, target: Any, source: FrameVersion) -> OperationRecord | None:
    """Return the record of writing a frame to a file, or None if the target has no name."""
    dataset = dataset_at(target)
    if dataset is None:
        return None
    written = external_version(dataset)
    written.columns, written.shape = list(source.columns), source.shape
    record_written(written)
    return OperationRecord(
        name, "io", written, IdentityEdges(source), {}, (source,), written_types=source.types() or None
    )


def resolve_version_aliases(version: FrameVersion) -> list[FrameVersion]:
    """Return the real versions behind an alias version."""
    if version.overrides is None:
        return [version]
    versions: dict[FrameVersion, None] = {}
    if version.base is not None:
        versions.update(dict.fromkeys(resolve_version_aliases(version.base)))
    for provenance in version.overrides.values():
        versions.update(dict.fromkeys(source for source, _ in provenance))
    return list(versions)


# An iteration with more sources is not folded.
_MAX_FOLDED_SOURCES = 64


def fold_iteration(record: OperationRecord) -> OperationRecord:
    """Return the record rebased to the start of the loop if the previous iteration has its location, else itself."""
    parents = record.parents
    if len(parents) != 1:
        return record
    before = parents[0]
    earlier = before.made_by
    if earlier is None or earlier.instruction != record.instruction or earlier.code is not record.code:
        return record
    edges, previous = record.edges, earlier.edges
    if not (isinstance(edges, IdentityEdges) and isinstance(previous, IdentityEdges)):
        return record
    if edges.source is not before or edges.flags != IDENTITY or previous.flags != IDENTITY:
        return record
    changed = dict(previous.changed or {})
    for label, provenance in (edges.changed or {}).items():
        changed[label] = _rebase(provenance, before, previous)
    rows = union(earlier.rows, _rebase(record.rows, before, previous))
    if any(len(provenance) > _MAX_FOLDED_SOURCES for provenance in (*changed.values(), rows)):
        return record
    return _merged_record(record, earlier, IdentityEdges(previous.source, IDENTITY, changed), rows)


def _rebase(provenance: Provenance, before: FrameVersion, previous: IdentityEdges) -> Provenance:
    """Replace dependencies on the previous iteration by its dependencies."""
    sources = [
        compose(previous.of(label), flags) if version is before else {(version, label): flags}
        for (version, label), flags in provenance.items()
    ]
    return union(*sources)


def _merged_record(
    record: OperationRecord, earlier: OperationRecord, edges: IdentityEdges, rows: Provenance
) -> OperationRecord:
    merged = OperationRecord(record.method, record.kind, None, edges)
    merged.rows = rows
    merged.parents = earlier.parents
    merged.is_module_function = record.is_module_function
    merged.is_pending = record.is_pending
    merged.code, merged.instruction = record.code, record.instruction
    return merged
