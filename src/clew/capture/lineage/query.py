"""Lineage of a frame, a Series or a written file in this process, composed over all its operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.capture.backends.base import backend_of
from clew.capture.environments.session import current_execution
from clew.capture.introspection.source_map import SourceMap, position_of
from clew.capture.lineage.datasets import ExternalDataset, dataset_at
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion
from clew.capture.lineage.operations import OperationRecord, last_written, resolve_version_aliases
from clew.capture.lineage.provenance import Provenance, SeriesLineage, as_indirect, compose, union
from clew.capture.lineage.transformations import DIRECT, IDENTITY, INDIRECT, MARKS, transformations
from clew.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Hashable


class Edge(NamedTuple):
    """Edge from a source column to an output column; `column` is None for a dependency of the whole output."""

    column: Hashable | None
    source: str
    source_column: Hashable
    type: str
    subtype: str
    opaque: bool


@dataclass(frozen=True, eq=False)
class FrameSnapshot:
    """A frame at the time of the snapshot, at which lineage stops."""

    name: str
    version: FrameVersion


class _ComposedLineage(NamedTuple):
    columns: dict[Hashable, Provenance]
    rows: Provenance


def version(frame: Any, name: str | None = None) -> FrameSnapshot:
    """Return a snapshot of `frame`; `name` is its name in edges."""
    state = _state_of(frame)
    if isinstance(state, SeriesLineage) or state is None:
        msg = f"clew has no lineage for this {type(frame).__name__}."
        raise UsageError(msg, hint="Pass a DataFrame, and call clew.track() before it is created.")
    return FrameSnapshot(name or state.name or "frame", state)


class FrameLineage:
    """Lineage of one frame, Series or file."""

    def __init__(self, target: FrameVersion, until: Iterable[FrameSnapshot] = ()) -> None:
        self._target = target
        self._stop_names = {token.version: token.name for token in until}

    def edges(self) -> list[Edge]:
        """Return every edge from a source: of the columns first, then of the whole output."""
        composed = _compose(self._target, set(self._stop_names))
        column_edges = [
            edge for label, provenance in composed.columns.items() for edge in self._to_edges(label, provenance)
        ]
        return [*column_edges, *self._to_edges(None, composed.rows)]

    def _to_edges(self, label: Hashable | None, provenance: Provenance) -> list[Edge]:
        return [
            Edge(label, self._name(source), column, kind, subtype, bool(flags & MARKS))
            for (source, column), flags in provenance.items()
            for kind, subtype in transformations(flags)
        ]

    def _name(self, source: FrameVersion) -> str:
        if source in self._stop_names:
            return self._stop_names[source]
        if source.dataset is not None:
            return source.dataset.label
        origin = source.made_by.origin if source.made_by is not None else None
        return source.name or _variable_name(source) or origin or f"frame_{source.uid}"

    def __repr__(self) -> str:
        return "\n".join(
            f"{edge.column if edge.column is not None else '*'} <- {edge.source}.{edge.source_column} {edge.subtype}"
            for edge in self.edges()
        )


def target_version(target: Any) -> FrameVersion:
    """Return the version of a frame, a Series or a file written by this process; raise for anything else."""
    state = _state_of(target)
    if isinstance(state, SeriesLineage):
        return state.version or _series_version(target, state)
    if state is None:
        msg = f"clew has no lineage for this {type(target).__name__}."
        raise UsageError(
            msg,
            hint="Pass a DataFrame, a Series or the path of a file written by this process; call clew.track() first.",
        )
    return state


def compose_sources(version_: FrameVersion, stops: set[FrameVersion]) -> tuple[dict[Hashable, Provenance], Provenance]:
    """Return the composed sources of each column and of the whole output, back to `stops` or to the origins."""
    composed = _compose(version_, stops)
    return composed.columns, composed.rows


def _variable_name(source: FrameVersion) -> str | None:
    """Return the variable a frame was assigned to, before the end of its cell sets its name."""
    record = source.made_by
    if record is None or record.code is None:
        return None
    execution = current_execution()
    sources = execution.session.sources if execution is not None else SourceMap()
    return sources.locate(position_of(record.code, record.instruction)).target


def _state_of(target: Any) -> FrameVersion | SeriesLineage | None:
    if isinstance(target, str) or hasattr(target, "__fspath__"):
        return _written_version(target)
    backend = backend_of(target)
    if backend is not None:
        return backend.current_version(target)
    state = getattr(target, "__dict__", {}).get(STATE_ATTR)
    return state if isinstance(state, (FrameVersion, SeriesLineage)) else None


def _written_version(path: Any) -> FrameVersion | None:
    text = path.removeprefix("file:") if isinstance(path, str) and not path.startswith("file://") else path
    dataset = dataset_at(text)
    return last_written(dataset) if isinstance(dataset, ExternalDataset) else None


def _series_version(series: Any, state: SeriesLineage) -> FrameVersion:
    from clew.capture.lineage.operations import ExplicitEdges

    target = FrameVersion()
    target.columns = [series.name]
    target.index_names = tuple(state.index or ())
    record = OperationRecord(
        "series", "selection", target, ExplicitEdges({series.name: state.provenance, **(state.index or {})})
    )
    record.rows = state.rows or {}
    target.made_by = record
    return target


def _compose(target: FrameVersion, stops: set[FrameVersion]) -> _ComposedLineage:
    """Compose the oldest versions first, iteratively: a chain may be longer than the interpreter's stack."""
    composed: dict[FrameVersion, _ComposedLineage] = {}
    # The target is expanded even if it is itself a stop.
    stack = [target]
    while stack:
        version_ = stack[-1]
        if version_ in composed:
            stack.pop()
            continue
        record = _producer(version_, stops)
        missing = [version for version in record.inputs() if version not in composed] if record is not None else []
        if missing:
            stack.extend(missing)
        else:
            stack.pop()
            # With explicit stops, literals are no sources.
            composed[version_] = _compose_version(version_, record, composed, to_literals=not stops)
    return composed[target]


def _producer(version_: FrameVersion, stops: set[FrameVersion]) -> OperationRecord | None:
    return None if version_ in stops else version_.made_by


def _compose_version(
    version_: FrameVersion,
    record: OperationRecord | None,
    composed: dict[FrameVersion, _ComposedLineage],
    *,
    to_literals: bool,
) -> _ComposedLineage:
    if record is None:
        return _ComposedLineage({label: {(version_, label): IDENTITY} for label in version_.labels()}, {})
    parents = {real for parent in record.parents for real in resolve_version_aliases(parent)}
    columns = {
        label: _compose_field(provenance, parents, composed) for label, provenance in record.fields_of(version_).items()
    }
    if (record.kind == "creation" or not record.inputs()) and to_literals:
        # A column of literals or of a buffer has no sources: the frame itself is its origin.
        columns = {label: sources or {(version_, label): IDENTITY} for label, sources in columns.items()}
    rows = union(*[composed[parent].rows for parent in parents], _compose_rows(record.rows, composed))
    return _ComposedLineage(columns, rows)


def _column_sources(
    composed: dict[FrameVersion, _ComposedLineage], source: FrameVersion, label: Hashable
) -> Provenance:
    lineage_ = composed[source]
    if label in lineage_.columns:
        return lineage_.columns[label]
    head = label if isinstance(label, tuple) else (label,)
    below = [
        sources
        for other, sources in lineage_.columns.items()
        if isinstance(other, tuple) and other[: len(head)] == head
    ]
    if below:
        # The label of a column level refers to every column below it.
        return union(*below)
    return {(source, label): IDENTITY} if source.made_by is None or source.dataset is not None else {}


def _compose_field(
    provenance: Provenance, parents: set[FrameVersion], composed: dict[FrameVersion, _ComposedLineage]
) -> Provenance:
    sources = [
        compose(_column_sources(composed, source, label), flags) for (source, label), flags in provenance.items()
    ]
    # Row dependencies of a frame that is no parent apply to this column only, as certain as the use of the frame.
    marks: dict[FrameVersion, int] = {}
    for (source, _), flags in provenance.items():
        if source not in parents:
            marks[source] = marks.get(source, MARKS) & flags
    row_sources = [
        {field: uses | flags for field, uses in composed[source].rows.items()} for source, flags in marks.items()
    ]
    return union(*sources, *row_sources)


def _compose_rows(rows: Provenance, composed: dict[FrameVersion, _ComposedLineage]) -> Provenance:
    sources = []
    for (source, label), flags in rows.items():
        sources.append(as_indirect(_column_sources(composed, source, label), flags & ~DIRECT))
        sources.append(composed[source].rows)
    return union(*sources)


__all__ = ["INDIRECT", "Edge", "FrameLineage", "FrameSnapshot", "version"]
