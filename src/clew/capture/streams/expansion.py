"""From a kernel's log to events: the same log gives the same bytes, whoever expands it and however often."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from clew.capture.datasets import FileDataset
from clew.capture.losses import count_loss
from clew.capture.records import Listed, Record, SameLabels
from clew.capture.sessions import Cell, Execution, Session
from clew.capture.sources import Position, SourceMap
from clew.capture.streams.entries import (
    Blocks,
    CellEnded,
    CellGoesOn,
    CellStarted,
    Dependency,
    Entry,
    Recorded,
    SessionStarted,
    SourcePart,
    Version,
)
from clew.capture.streams.files import DATAFRAME, LINEAGE, RUNTIME
from clew.capture.streams.naming import Names, starts_anew
from clew.capture.streams.operations import Operation
from clew.capture.streams.runs import cell_event, session_event
from clew.capture.streams.runtime import cell_ended, cell_started
from clew.capture.versions import FrameVersion

if TYPE_CHECKING:
    from collections.abc import Hashable

    from clew.capture.provenance import Provenance

# An event and the stream that it belongs to.
Told: TypeAlias = tuple[str, dict[str, Any]]


class Expansion:
    """One session as its log tells it."""

    def __init__(self) -> None:
        self._session = Session("notebook", session_id="unknown", run_id="unknown")
        self._engine = "unknown"
        self._sources = SourceMap()
        self._labels: dict[int, _Columns] = {}
        self._versions: dict[int, FrameVersion] = {}
        self._counts: dict[str, int] = {}
        self._running: dict[str, Execution] = {}
        # What running cells did, of whose variables nothing is known yet.
        self._so_far: dict[str, list[Recorded]] = {}
        self._last_moment = 0.0
        self.is_ended = False

    def events(self, entry: Entry) -> Iterator[Told]:
        """The events that an entry stands for."""
        if isinstance(entry, SourcePart):
            self._sources.add_part(entry.file, entry.text, entry.first, entry.last)
            return
        self._last_moment = entry.moment
        if isinstance(entry, SessionStarted):
            yield self._begun(entry)
        elif isinstance(entry, CellStarted):
            yield from self._started(entry)
        elif isinstance(entry, CellGoesOn):
            self._went_on(entry)
        elif isinstance(entry, CellEnded):
            yield from self._ended(entry)
        else:
            yield from self.end()

    def end(self) -> Iterator[Told]:
        """The end of the session; of one whose kernel was killed too, which could not tell of it."""
        if self.is_ended:
            return
        self.is_ended = True
        for execution in self._running.values():
            execution.told_at = self._last_moment
            execution.duration = max(0.0, self._last_moment - execution.started_at)
            yield from self._operations(execution, self._so_far.get(execution.run_id, []), {}, {})
            yield LINEAGE, cell_event(execution, "ABORT", self._engine)
        kind = "ABORT" if self._running else "FAIL" if self._session.failures else "COMPLETE"
        yield LINEAGE, session_event(self._session, kind, self._last_moment, self._engine)

    def _begun(self, entry: SessionStarted) -> Told:
        self._session = Session(entry.notebook, entry.session_id, entry.run_id)
        self._engine = entry.engine
        return LINEAGE, session_event(self._session, "START", entry.moment, self._engine)

    def _started(self, entry: CellStarted) -> Iterator[Told]:
        self._engine = entry.engine
        self._session.executions += 1
        cell = Cell(entry.cell_id, entry.source, entry.name, entry.index, frozenset(entry.defines))
        execution = Execution(self._session, cell, None, entry.run_id, started_at=entry.moment, clock=0.0)
        execution.start_memory_mb = entry.memory_mb
        execution.told_at = entry.moment
        self._running[entry.run_id] = execution
        if entry.file is not None:
            self._sources.add_cell(entry.source, entry.file, entry.first_line)
        starts_anew(execution, self._counts)
        yield RUNTIME, cell_started(execution)
        yield LINEAGE, cell_event(execution, "START", self._engine)

    def _went_on(self, entry: CellGoesOn) -> None:
        self._meet(entry)
        records = self._so_far.setdefault(entry.run_id, [])
        for one in entry.repeated:
            records[one.place] = replace(
                records[one.place], count=one.count, duration=one.duration, overhead=one.overhead
            )
        records += entry.records

    def _ended(self, entry: CellEnded) -> Iterator[Told]:
        self._meet(entry)
        execution = self._running.pop(entry.run_id, None)
        if execution is None:
            # The start of the cell was lost to a full disk; later ones may speak of its frames.
            return
        self._engine = entry.engine
        execution.told_at = entry.moment
        execution.duration, execution.end_memory_mb = entry.duration, entry.memory_mb
        execution.is_stopped, execution.failure = entry.is_stopped, entry.failure
        self._session.failures += entry.failure is not None
        records = [*self._so_far.pop(entry.run_id, []), *entry.records]
        metrics = {self._versions[number]: found for number, found in entry.metrics}
        yield from self._operations(execution, records, entry.bound, metrics)
        yield LINEAGE, cell_event(execution, "FAIL" if entry.failure is not None else "COMPLETE", self._engine)
        yield RUNTIME, cell_ended(execution)

    def _operations(
        self,
        execution: Execution,
        records: list[Recorded],
        bound: dict[str, int],
        metrics: dict[FrameVersion, dict[str, Any]],
    ) -> Iterator[Told]:
        names = Names(execution, bound, self._counts)
        of_cell = uuid.UUID(execution.run_id)
        for place, recorded in enumerate(records):
            try:
                yield from self._operation(execution, recorded, names, metrics, str(uuid.uuid5(of_cell, str(place))))
            except Exception as error:  # noqa: BLE001 - one record that cannot be told must not cost the others
                count_loss(f"tell {recorded.method}", error)

    def _operation(
        self,
        execution: Execution,
        recorded: Recorded,
        names: Names,
        metrics: dict[FrameVersion, dict[str, Any]],
        run_id: str,
    ) -> Iterator[Told]:
        record = self._record(recorded)
        execution.records.append(record)
        place = self._sources.place(Position(*recorded.position) if recorded.position is not None else None)
        for version in record.inputs():
            names.know(version)
        operation = names.operation(record)
        names.give(record, operation, place)
        told = Operation(execution, record, operation, place, metrics, run_id, self._engine)
        for event in told.openlineage():
            yield LINEAGE, event
        if record.error is None:
            yield DATAFRAME, told.dataframe()

    def _meet(self, entry: CellGoesOn | CellEnded) -> None:
        for labels in entry.labels:
            self._labels[labels.number] = _Columns(map(_label, labels.labels))
        for version in entry.versions:
            self._versions[version.number] = self._version(version)

    def _version(self, told: Version) -> FrameVersion:
        version = FrameVersion(told.frame)
        version.number, version.told = 0, None
        version.object_id = told.object_id
        version.columns = self._labels.get(told.columns, _Columns())
        version.index_names = tuple(map(_label, told.index_names))
        version.shape = told.shape
        version.nbytes = told.bytes
        version.dataset = FileDataset(*told.dataset) if told.dataset is not None else None
        version.repeats = self._versions.get(told.repeats) if told.repeats is not None else None
        if told.blocks is not None:
            _give_blocks(version, told.blocks)
        return version

    def _record(self, told: Recorded) -> Record:
        fields = {_label(label): self._provenance(found) for label, found in told.fields}
        edges = Listed(fields) if told.source is None else SameLabels(self._versions[told.source], told.flags, fields)
        record = Record(told.method, told.kind, None if told.output is None else self._versions[told.output], edges)
        record.rows = self._provenance(told.rows)
        record.parents = tuple(self._versions[number] for number in told.parents)
        record.read_from = self._versions[told.read_from] if told.read_from is not None else None
        record.is_module_function = told.is_module_function
        record.started, record.duration, record.overhead = told.started, told.duration, told.overhead
        record.count, record.error = told.count, told.error
        if told.written_types is not None:
            record.written_types = {_label(label): name for label, name in told.written_types}
        return record

    def _provenance(self, dependencies: list[Dependency]) -> Provenance:
        return {(self._versions[number], _label(label)): flags for number, label, flags in dependencies}


def _give_blocks(version: FrameVersion, told: Blocks) -> None:
    version.blocks, row = [], 0
    parts: Iterator[Any] = iter(told)
    for dtype, width, start, stop, step in zip(parts, parts, parts, parts, parts, strict=True):
        places = start if step is None else range(start, stop, step)
        version.blocks += (dtype, places)
        row += width * len(places)
    if version.nbytes is None and version.shape is not None:
        version.nbytes = row * version.shape[0]


class _Columns(list[Any]):
    """Labels in their order, of which one can ask whether it is there without walking through thousands."""

    def __contains__(self, label: object) -> bool:
        if not hasattr(self, "_known"):
            self._known = frozenset(self)
        return label in self._known


def _label(value: Any) -> Hashable:
    """A label as it was: JSON knows no tuples."""
    return tuple(map(_label, value)) if isinstance(value, list) else value
