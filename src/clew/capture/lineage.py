"""Asking in place: the lineage of a frame, a Series or a written file, composed over every operation behind it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.capture.datasets import FileDataset, located_at
from clew.capture.flags import DIRECT, IDENTITY, INDIRECT, MARKS, transformations
from clew.capture.provenance import Provenance, SeriesState, composed, union, used_for
from clew.capture.records import Record, grounded
from clew.capture.sessions import current_execution
from clew.capture.sources import SourceMap, position_of
from clew.capture.versions import STATE, FrameVersion
from clew.capture.written import written_to
from clew.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Hashable


class Edge(NamedTuple):
    """One source column of an output column; `column` is None for what holds for the whole output."""

    column: Hashable | None
    source: str
    source_column: Hashable
    type: str
    subtype: str
    opaque: bool


@dataclass(frozen=True, eq=False)
class VersionToken:
    """A frame as it was when the token was taken."""

    name: str
    version: FrameVersion


class _Answer(NamedTuple):
    columns: dict[Hashable, Provenance]
    rows: Provenance


def version(frame: Any, name: str | None = None) -> VersionToken:
    """A token of `frame` as it is now; `name` is what its edges are called by."""
    found = _state_of(frame)
    if isinstance(found, SeriesState) or found is None:
        msg = f"A {type(frame).__name__} has no version that clew knows."
        raise UsageError(msg, hint="Call clew.track() before the frame is made, and give a DataFrame.")
    return VersionToken(name or found.name or "frame", found)


class Lineage:
    """The lineage of one frame, Series or file."""

    def __init__(self, target: FrameVersion, until: Iterable[VersionToken] = ()) -> None:
        self._target = target
        self._stops = {token.version: token.name for token in until}

    def edges(self) -> list[Edge]:
        """Every edge from a source to the output, columns first, then those that hold for the whole."""
        answer = _compose(self._target, set(self._stops))
        found = [edge for label, provenance in answer.columns.items() for edge in self._told(label, provenance)]
        return [*found, *self._told(None, answer.rows)]

    def _told(self, label: Hashable | None, provenance: Provenance) -> list[Edge]:
        return [
            Edge(label, self._name(source), column, kind, subtype, bool(flags & MARKS))
            for (source, column), flags in provenance.items()
            for kind, subtype in transformations(flags)
        ]

    def _name(self, source: FrameVersion) -> str:
        if source in self._stops:
            return self._stops[source]
        if source.dataset is not None:
            return source.dataset.label
        return source.name or _variable(source) or f"frame_{source.uid}"

    def __repr__(self) -> str:
        return "\n".join(
            f"{edge.column if edge.column is not None else '*'} <- {edge.source}.{edge.source_column} {edge.subtype}"
            for edge in self.edges()
        )


def lineage(target: Any, until: Iterable[VersionToken] = ()) -> Lineage:
    """The lineage of a frame, a Series, or the path of a file written here; back to `until` where given."""
    return Lineage(target_version(target), until)


def target_version(target: Any) -> FrameVersion:
    """The state of a frame, a Series or a file that was written here; who asks for anything else is told so."""
    found = _state_of(target)
    if isinstance(found, SeriesState):
        return _series_version(target, found)
    if found is None:
        msg = f"clew knows nothing of this {type(target).__name__}."
        raise UsageError(
            msg,
            hint="Call clew.track() before it is made; give a DataFrame, a Series or the path of a file written here.",
        )
    return found


def sources_of(version_: FrameVersion, stops: set[FrameVersion]) -> tuple[dict[Hashable, Provenance], Provenance]:
    """Where each column comes from, and what held for the whole: back to `stops`, or as far as is known."""
    answer = _compose(version_, stops)
    return answer.columns, answer.rows


def _variable(source: FrameVersion) -> str | None:
    """The name that the code gave to a frame, which the end of its cell has not told yet."""
    record = source.made_by
    if record is None or record.code is None:
        return None
    execution = current_execution()
    sources = execution.session.sources if execution is not None else SourceMap()
    return sources.place(position_of(record.code, record.instruction)).target


def _state_of(target: Any) -> FrameVersion | SeriesState | None:
    if isinstance(target, str) or hasattr(target, "__fspath__"):
        return _written(target)
    if "pandas" in sys.modules and hasattr(target, "_mgr") and hasattr(target, "columns"):
        from clew.capture.frames.state import version_of

        return version_of(target)
    state = getattr(target, "__dict__", {}).get(STATE)
    if isinstance(state, (FrameVersion, SeriesState)):
        return state
    from clew.capture.foreign import is_frame, version_of_frame

    return version_of_frame(target) if is_frame(target) else None


def _written(path: Any) -> FrameVersion | None:
    text = path.removeprefix("file:") if isinstance(path, str) and not path.startswith("file://") else path
    dataset = located_at(text)
    return written_to(dataset) if isinstance(dataset, FileDataset) else None


def _series_version(series: Any, state: SeriesState) -> FrameVersion:
    from clew.capture.records import Listed

    target = FrameVersion()
    target.columns = [series.name]
    target.index_names = tuple(state.index or ())
    record = Record("series", "creation", target, Listed({series.name: state.provenance, **(state.index or {})}))
    record.rows = state.rows or {}
    target.made_by = record
    return target


def _compose(target: FrameVersion, stops: set[FrameVersion]) -> _Answer:
    """Answer for the oldest versions first: a chain may be longer than the interpreter's stack."""
    answers: dict[FrameVersion, _Answer] = {}
    # The target is opened even if it is itself a stop: what is asked is how it came to be.
    waiting = [target]
    while waiting:
        version_ = waiting[-1]
        if version_ in answers:
            waiting.pop()
            continue
        record = _maker(version_, stops)
        missing = [one for one in record.inputs() if one not in answers] if record is not None else []
        if missing:
            waiting.extend(missing)
        else:
            waiting.pop()
            # Whoever gives tokens asks for those: what was written down since is no source.
            answers[version_] = _answer(version_, record, answers, to_literals=not stops)
    return answers[target]


def _maker(version_: FrameVersion, stops: set[FrameVersion]) -> Record | None:
    return None if version_ in stops else version_.made_by


def _answer(
    version_: FrameVersion, record: Record | None, answers: dict[FrameVersion, _Answer], *, to_literals: bool
) -> _Answer:
    if record is None:
        return _Answer({label: {(version_, label): IDENTITY} for label in version_.labels()}, {})
    parents = {real for parent in record.parents for real in grounded(parent)}
    columns = {
        label: _composed_field(provenance, parents, answers) for label, provenance in record.fields_of(version_).items()
    }
    if record.kind == "creation" and to_literals:
        # A column made of literals is where the walk ends: the frame itself is the source.
        columns = {label: found or {(version_, label): IDENTITY} for label, found in columns.items()}
    rows = union(*[answers[parent].rows for parent in parents], _composed_rows(record.rows, answers))
    return _Answer(columns, rows)


def _column(answers: dict[FrameVersion, _Answer], source: FrameVersion, label: Hashable) -> Provenance:
    answer = answers[source]
    if label in answer.columns:
        return answer.columns[label]
    head = label if isinstance(label, tuple) else (label,)
    below = [
        found for known, found in answer.columns.items() if isinstance(known, tuple) and known[: len(head)] == head
    ]
    if below:
        # The label of a level stands for every column below it.
        return union(*below)
    return {(source, label): IDENTITY} if source.made_by is None or source.dataset is not None else {}


def _composed_field(
    provenance: Provenance, parents: set[FrameVersion], answers: dict[FrameVersion, _Answer]
) -> Provenance:
    found = [composed(_column(answers, source, label), flags) for (source, label), flags in provenance.items()]
    # What held for the whole of a frame that only lent a column holds for that column alone.
    lent = [answers[source].rows for source, _ in provenance if source not in parents]
    return union(*found, *lent)


def _composed_rows(rows: Provenance, answers: dict[FrameVersion, _Answer]) -> Provenance:
    found = []
    for (source, label), flags in rows.items():
        found.append(used_for(_column(answers, source, label), flags & ~DIRECT))
        found.append(answers[source].rows)
    return union(*found)


__all__ = ["INDIRECT", "Edge", "Lineage", "VersionToken", "lineage", "version"]
