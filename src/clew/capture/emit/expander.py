"""Expand the kernel log into operations with names of datasets and jobs."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from clew.capture.diagnostics import CaptureLoss, record_error, take_losses
from clew.capture.emit.event_builders import (
    OperationEvents,
    cell_end_event,
    cell_event,
    cell_start_event,
    session_event,
)
from clew.capture.emit.files import (
    DATAFRAME,
    LINEAGE,
    MEMORY,
    RUNTIME,
    Blocks,
    CellEnded,
    CellProgress,
    CellStarted,
    Dependency,
    Engines,
    Entry,
    OperationEntry,
    OperationStarted,
    SessionStarted,
    SetupCellSource,
    VersionEntry,
)
from clew.capture.emit.redaction import redact
from clew.capture.environments.session import Cell, Execution, LossReport, Session
from clew.capture.introspection.source_map import Position, SourceMap
from clew.capture.lineage.datasets import ExternalDataset
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges, OperationRecord
from clew.capture.lineage.transformations import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Hashable

    from clew.capture.introspection.source_map import SourceLocation
    from clew.capture.lineage.provenance import Provenance


# marimo prefixes names with a leading underscore with the cell's id to make them private to their cell.
_MANGLED = re.compile(r"^_cell_[^_]+(?=_)")


class DatasetNamer:
    """Names the operations of one execution and their frame versions.

    `counts` is the number of versions of each variable since its defining cell last started, `bound` maps variables to
    the frames they hold when the cell ends.
    """

    def __init__(self, execution: Execution, bound: dict[str, int], counts: dict[str, int]) -> None:
        self._execution = execution
        self._counts = counts
        self._bound: dict[int, str] = {}
        for name, frame in bound.items():
            self._bound.setdefault(frame, name)

    def assign_name(self, record: OperationRecord, operation: str, location: SourceLocation) -> None:
        """Name the output: by the mutated frame, the assigned variable, the variable that holds it or the operation."""
        version = record.output
        if version is None or version.dataset is not None:
            return
        changed = next((parent for parent in record.parents if parent.uid == version.uid), None)
        if changed is not None and changed.name is not None:
            version.name = changed.name
        else:
            version.name = self._variable_name(version, location) or f"{self._execution.cell.label}/{operation}"
        self._assign_number(version)

    def name_input(self, version: FrameVersion) -> None:
        """Name an input version that has no name yet."""
        if version.number or version.dataset is not None:
            return
        if version.first_iteration is not None:
            version.name, version.number = version.first_iteration.name, version.first_iteration.number
        if not version.number:
            version.name = version.name or self._bound.get(version.uid) or f"{self._execution.cell.label}/dataframe"
            self._assign_number(version)

    def _variable_name(self, version: FrameVersion, location: SourceLocation) -> str | None:
        if location.target is not None and location.is_top_level:
            return self._scoped(location.target)
        bound = self._bound.get(version.uid)
        return self._scoped(bound) if bound is not None else None

    def _scoped(self, name: str) -> str:
        plain = _MANGLED.sub("", name)
        return f"{self._execution.cell.label}/{plain}" if plain.startswith("_") else plain

    def _assign_number(self, version: FrameVersion) -> None:
        name = version.name or ""
        self._counts[name] = version.number = self._counts.get(name, 0) + 1


def operation_name(record: OperationEntry | OperationStarted) -> str:
    """Return `pandas_<function>` for functions of pandas, `dataframe_<method>` for methods and other backends."""
    method = record.method.strip("_").replace(".", "_").replace("__", "_")
    is_pandas_function = record.is_module_function and record.engine == "pandas"
    return f"pandas_{method}" if is_pandas_function else f"dataframe_{method}"


@dataclass
class _Operation:
    """An operation of a running cell; its COMPLETE waits for the end, when the variables are known."""

    name: str
    run_id: str
    entry: OperationEntry | OperationStarted
    is_started: bool = False


@dataclass
class _RunningCell:
    """A running cell with its operations in order."""

    execution: Execution
    operations: list[_Operation] = field(default_factory=list)
    # Operations that were started before they ended, by their start.
    started: dict[float, _Operation] = field(default_factory=dict)
    name_counts: Counter[str] = field(default_factory=Counter)

    def start(self, entry: OperationEntry | OperationStarted, key: str) -> _Operation:
        """Create an operation, named within the cell; repeated names get a number."""
        name = operation_name(entry)
        self.name_counts[name] += 1
        count = self.name_counts[name]
        run_id = str(uuid.uuid5(uuid.UUID(self.execution.run_id), key))
        return _Operation(name if count == 1 else f"{name}.{count}", run_id, entry)

    def add(self, entry: OperationEntry) -> _Operation:
        """Add an ended operation, which may have been started before."""
        operation = self.started.pop(entry.started, None) or self.start(entry, str(len(self.operations)))
        operation.entry = entry
        self.operations.append(operation)
        return operation


def reset_counts(execution: Execution, counts: dict[str, int]) -> None:
    """Restart version counting for the variables that the cell defines."""
    prefix = f"{execution.cell.label}/"
    for name in list(counts):
        if name in execution.cell.defines or name.startswith(prefix):
            del counts[name]


# Methods that reorder or remove rows at most: with as many rows as before, a copied column has the same values.
_KEEP_VALUES = frozenset(
    "__setitem__ __delitem__ __getitem__ assign insert pop drop rename columns set_axis add_prefix add_suffix copy "
    "sort_values sort_index reset_index set_index dropna drop_duplicates query head tail filter select with_columns "
    "sort with_row_index".split()
)


def share_metrics(records: list[OperationRecord], metrics: dict[FrameVersion, dict[str, Any]]) -> None:
    """Add the metrics of columns that an operation copied, to frames whose data is gone when the cell ends."""
    steps = [
        (record, record.parents[0], record.output)
        for record in records
        if record.output is not None and _keeps_values(record, record.output)
    ]
    # From the last frame to the first, then the other way.
    for record, source, output in reversed(steps):
        _copy_metrics(metrics, output, source, [(label, column) for column, label in _copied_columns(record, source)])
    for record, source, output in steps:
        _copy_metrics(metrics, source, output, _copied_columns(record, source))


def _keeps_values(record: OperationRecord, output: FrameVersion) -> bool:
    if record.method not in _KEEP_VALUES or len(record.parents) != 1 or output.dataset is not None:
        return False
    before, after = record.parents[0].shape, output.shape
    return before is not None and after is not None and before[0] == after[0]


def _copied_columns(record: OperationRecord, source: FrameVersion) -> list[tuple[Hashable, Hashable]]:
    """Return the columns of `source` that the output has unchanged, each with its name there."""
    fields = record.fields_of(record.output) if record.output is not None else {}
    return [
        (next(iter(sources))[1], label)
        for label, sources in fields.items()
        if len(sources) == 1 and next(iter(sources.items()))[1] == IDENTITY and next(iter(sources))[0] is source
    ]


def _copy_metrics(
    metrics: dict[FrameVersion, dict[str, Any]],
    known: FrameVersion,
    other: FrameVersion,
    columns: list[tuple[Hashable, Hashable]],
) -> None:
    if known not in metrics or other.shape is None:
        return
    measured = metrics[known]["columnMetrics"]
    target = metrics.setdefault(other, {"rowCount": other.shape[0], "columnMetrics": {}})
    for label, other_label in columns:
        if str(label) in measured:
            target["columnMetrics"].setdefault(str(other_label), measured[str(label)])
    if any("sampled" in column for column in target["columnMetrics"].values()):
        target["sampled"] = True


# An event and the stream that it belongs to.
StreamEvent: TypeAlias = tuple[str, dict[str, Any]]


class EventExpander:
    """Expands the log of one session to events."""

    def __init__(self) -> None:
        self._session = Session("notebook", session_id="unknown", run_id="unknown")
        self._engines: Engines = {}
        self._sources = SourceMap()
        self._labels: dict[int, _LabelList] = {}
        self._versions: dict[int, FrameVersion] = {}
        # Of all cells: the metrics of a version are computed once.
        self._metrics: dict[FrameVersion, dict[str, Any]] = {}
        self._counts: dict[str, int] = {}
        self._running: dict[str, _RunningCell] = {}
        # The frame that each variable held at the end of the last cell.
        self._variables: dict[str, int] = {}
        self._last_timestamp = 0.0
        self.is_ended = False

    def events(self, entry: Entry) -> Iterator[StreamEvent]:
        """Yield the events of a log entry."""
        if isinstance(entry, SetupCellSource):
            self._sources.add_line_range(entry.file, entry.text, entry.first, entry.last)
            return
        self._last_timestamp = entry.timestamp
        if isinstance(entry, SessionStarted):
            yield self._session_started(entry)
        elif isinstance(entry, CellStarted):
            yield from self._cell_started(entry)
        elif isinstance(entry, OperationStarted):
            yield from self._operation_started(entry)
        elif isinstance(entry, CellProgress):
            yield from self._cell_progressed(entry)
        elif isinstance(entry, CellEnded):
            yield from self._cell_ended(entry)
        else:
            self._add_losses(entry.losses)
            yield from self.close()

    def close(self) -> Iterator[StreamEvent]:
        """Yield the end of the session, also for a killed kernel that did not log it."""
        if self.is_ended:
            return
        self.is_ended = True
        for cell in self._running.values():
            execution = cell.execution
            execution.emitted_at = self._last_timestamp
            execution.duration = max(0.0, self._last_timestamp - execution.started_at)
            yield from self._operations(cell, {}, "ABORT")
            yield LINEAGE, cell_event(execution, "ABORT", self._cell_engine(execution))
        kind = "ABORT" if self._running else "FAIL" if self._session.failures else "COMPLETE"
        yield LINEAGE, session_event(self._session, kind, self._last_timestamp, self._engine())

    def _session_started(self, entry: SessionStarted) -> StreamEvent:
        path = Path(entry.path) if entry.path is not None else None
        self._session = Session(entry.notebook, entry.session_id, entry.run_id, path)
        self._engines = entry.engines
        return LINEAGE, session_event(self._session, "START", entry.timestamp, self._engine())

    def _cell_started(self, entry: CellStarted) -> Iterator[StreamEvent]:
        self._engines = entry.engines
        self._session.executions += 1
        cell = Cell(entry.cell_id, entry.source, entry.name, entry.index, frozenset(entry.defines))
        execution = Execution(self._session, cell, None, entry.run_id, started_at=entry.timestamp, clock=0.0)
        execution.start_memory_mb = entry.memory_mb
        execution.emitted_at = entry.timestamp
        self._running[entry.run_id] = _RunningCell(execution)
        if entry.file is not None:
            self._sources.add_cell(entry.source, entry.file, entry.start)
        reset_counts(execution, self._counts)
        yield RUNTIME, cell_start_event(execution)
        yield LINEAGE, cell_event(execution, "START", self._engine())

    def _operation_started(self, entry: OperationStarted) -> Iterator[StreamEvent]:
        self._add_definitions(entry)
        cell = self._running.get(entry.run_id)
        if cell is None:
            return
        operation = cell.started[entry.started] = cell.start(entry, f"started {entry.started}")
        cell.execution.emitted_at = entry.timestamp
        yield LINEAGE, self._start_event(cell.execution, operation)

    def _cell_progressed(self, entry: CellProgress) -> Iterator[StreamEvent]:
        self._add_definitions(entry)
        cell = self._running.get(entry.run_id)
        if cell is None:
            return
        cell.execution.emitted_at = entry.timestamp
        for repeat in entry.repeated:
            operation = cell.operations[repeat.index]
            operation.entry = replace(
                operation.entry, count=repeat.count, duration=repeat.duration, overhead=repeat.overhead
            )
        for record in entry.records:
            operation = cell.add(record)
            if not operation.is_started:
                yield LINEAGE, self._start_event(cell.execution, operation)

    def _start_event(self, execution: Execution, operation: _Operation) -> dict[str, Any]:
        """Build the START of an operation of a running cell, with the inputs that have names already."""
        operation.is_started = True
        events = self._event_builder(execution, operation, self._decode_record(operation.entry))
        events.inputs = [version for version in events.inputs if version.number or version.dataset is not None]
        return events.openlineage_event("START")

    def _cell_ended(self, entry: CellEnded) -> Iterator[StreamEvent]:
        self._add_definitions(entry)
        cell = self._running.pop(entry.run_id, None)
        if cell is None:
            # The start of the cell was lost to a full disk; later cells may still reference its frames.
            return
        execution = cell.execution
        execution.emitted_at = entry.timestamp
        execution.duration, execution.end_memory_mb = entry.duration, entry.memory_mb
        execution.is_stopped, execution.failure = entry.is_stopped, entry.failure
        self._session.failures += entry.failure is not None
        for record in entry.records:
            cell.add(record)
        for number, values in entry.metrics:
            version = self._versions[number]
            memory = values.pop(MEMORY, None)
            if memory is not None:
                version.nbytes, version.is_size_estimated = memory[0], not memory[1]
            self._metrics[version] = values
        for number, texts in entry.descriptions:
            self._versions[number].descriptions = texts
        self._add_losses(entry.losses, execution)
        self._variables.update(entry.bound)
        yield from self._operations(cell, entry.bound, "COMPLETE")
        yield (
            LINEAGE,
            cell_event(execution, "FAIL" if entry.failure is not None else "COMPLETE", self._cell_engine(execution)),
        )
        yield RUNTIME, cell_end_event(execution)

    def _add_losses(self, losses: list[CaptureLoss], execution: Execution | None = None) -> None:
        """Add what capture could not follow to the cell and to the session."""
        for loss in losses:
            location = self._sources.locate(Position(*loss.position) if loss.position is not None else None)
            cell = execution.cell.label if execution is not None else None
            described = LossReport(loss.where, loss.error_type, loss.times, cell, location.line, redact(location.text))
            self._session.losses.append(described)
            if execution is not None:
                execution.losses.append(described)

    def _operations(self, cell: _RunningCell, bound: dict[str, int], end: str) -> Iterator[StreamEvent]:
        """Yield the events of the operations; `end` is the type of the last event of those that have no result."""
        namer = DatasetNamer(cell.execution, bound, self._counts)
        records = [(operation, self._decode_record(operation.entry)) for operation in cell.operations]
        share_metrics([record for _, record in records], self._metrics)
        for operation, record in records:
            try:
                yield from self._operation(cell.execution, operation, record, namer)
            except Exception as error:  # noqa: BLE001 - one bad record must not affect the others
                record_error(f"expand {operation.name}", error)
                self._add_losses(take_losses("", operation.entry.position), cell.execution)
        for operation in cell.started.values():
            # It made no frame. When it ended is not known, but the next operation started after that.
            record = self._decode_record(operation.entry)
            later = [other.entry.started for other in cell.operations if other.entry.started > record.started]
            record.duration = min([cell.execution.duration, *later]) - record.started
            for version in record.inputs():
                namer.name_input(version)
            yield LINEAGE, self._event_builder(cell.execution, operation, record).openlineage_event(end)

    def _operation(
        self, execution: Execution, operation: _Operation, record: OperationRecord, namer: DatasetNamer
    ) -> Iterator[StreamEvent]:
        execution.records.append(record)
        for version in record.inputs():
            namer.name_input(version)
        namer.assign_name(record, operation.name, self._locate(operation.entry))
        events = self._event_builder(execution, operation, record)
        if not operation.is_started:
            yield LINEAGE, events.openlineage_event("START")
        yield LINEAGE, events.openlineage_event("COMPLETE" if record.error is None else "FAIL")
        if record.error is None:
            yield DATAFRAME, events.dataframe_event()

    def _event_builder(self, execution: Execution, operation: _Operation, record: OperationRecord) -> OperationEvents:
        location, engine = self._locate(operation.entry), self._engine(record.engine)
        aliases = self._aliases(record, location)
        return OperationEvents(
            execution, record, operation.name, location, self._metrics, operation.run_id, engine, aliases
        )

    def _locate(self, entry: OperationEntry | OperationStarted) -> SourceLocation:
        return self._sources.locate(Position(*entry.position) if entry.position is not None else None)

    def _aliases(self, record: OperationRecord, location: SourceLocation) -> dict[int, str]:
        """Return the variables in the code that hold an input under another name, as after `df = df1`."""
        if not location.is_top_level:
            return {}
        frames = {version.uid: version for version in record.inputs() if version.dataset is None}
        by_name = {version.name: uid for uid, version in frames.items()}
        aliases: dict[int, str] = {}
        for name, original in location.variables:
            uid = self._variables.get(name)
            uid = uid if uid in frames else by_name.get(original)
            if uid is not None and name not in by_name:
                aliases.setdefault(uid, name)
        return aliases

    def _cell_engine(self, execution: Execution) -> tuple[str, str]:
        """Return the engine of the first operation of a cell."""
        return self._engine(next((record.engine for record in execution.records), None))

    def _engine(self, name: str | None = None) -> tuple[str, str]:
        """Return name and version of a backend, by default of the first that is loaded."""
        name = name or next(iter(self._engines), "pandas")
        return name, self._engines.get(name, "unknown")

    def _add_definitions(self, entry: OperationStarted | CellProgress | CellEnded) -> None:
        self._engines = entry.engines
        for labels in entry.labels:
            self._labels[labels.number] = _LabelList(map(_decode_label, labels.labels))
        for version in entry.versions:
            self._versions[version.number] = self._decode_version(version)

    def _decode_version(self, entry: VersionEntry) -> FrameVersion:
        version = FrameVersion(entry.frame)
        version.number, version.encoded_facets = 0, None
        version.object_id = entry.object_id
        version.columns = self._labels.get(entry.columns, _LabelList())
        version.index_names = tuple(map(_decode_label, entry.index_names))
        version.shape = entry.shape
        version.nbytes = entry.bytes
        version.engine, version.file_bytes = entry.engine, entry.file_bytes
        version.dataset = ExternalDataset(*entry.dataset) if entry.dataset is not None else None
        version.first_iteration = (
            self._versions.get(entry.first_iteration) if entry.first_iteration is not None else None
        )
        if entry.blocks is not None:
            _decode_blocks(version, entry.blocks)
        return version

    def _decode_record(self, entry: OperationEntry | OperationStarted) -> OperationRecord:
        record = OperationRecord(entry.method, entry.kind, None, ExplicitEdges({}))
        record.parents = tuple(self._versions[number] for number in entry.parents)
        record.is_module_function, record.engine = entry.is_module_function, entry.engine
        record.started, record.sql = entry.started, entry.query
        if isinstance(entry, OperationStarted):
            return record
        fields = {_decode_label(label): self._decode_provenance(sources) for label, sources in entry.fields}
        record.edges = (
            ExplicitEdges(fields)
            if entry.source is None
            else IdentityEdges(self._versions[entry.source], entry.flags, fields)
        )
        record.output = None if entry.output is None else self._versions[entry.output]
        record.rows = self._decode_provenance(entry.rows)
        record.read_from = self._versions[entry.read_from] if entry.read_from is not None else None
        record.duration, record.overhead = entry.duration, entry.overhead
        record.count, record.error = entry.count, entry.error
        if entry.written_types is not None:
            record.written_types = {_decode_label(label): name for label, name in entry.written_types}
        return record

    def _decode_provenance(self, dependencies: list[Dependency]) -> Provenance:
        return {(self._versions[number], _decode_label(label)): flags for number, label, flags in dependencies}


def _decode_blocks(version: FrameVersion, encoded: Blocks) -> None:
    version.blocks, row_bytes = [], 0
    items: Iterator[Any] = iter(encoded)
    for dtype, width, start, stop, step in zip(items, items, items, items, items, strict=True):
        positions = start if step is None else range(start, stop, step)
        version.blocks += (dtype, positions)
        row_bytes += width * len(positions)
    if version.nbytes is None and version.shape is not None:
        version.nbytes, version.is_size_estimated = row_bytes * version.shape[0], True


class _LabelList(list[Any]):
    """List of labels with O(1) membership tests."""

    def __contains__(self, label: object) -> bool:
        if not hasattr(self, "_set"):
            self._set = frozenset(self)
        return label in self._set


def _decode_label(value: Any) -> Hashable:
    """Restore tuples, which JSON stores as lists."""
    return tuple(map(_decode_label, value)) if isinstance(value, list) else value
