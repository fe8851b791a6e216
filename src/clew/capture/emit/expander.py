"""Expand the kernel log into operations with names of datasets and jobs."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from clew.capture.diagnostics import record_error
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
    RUNTIME,
    Blocks,
    CellEnded,
    CellProgress,
    CellStarted,
    Dependency,
    Engines,
    Entry,
    OperationEntry,
    SessionStarted,
    SetupCellSource,
    VersionEntry,
)
from clew.capture.environments.session import Cell, Execution, Session
from clew.capture.introspection.source_map import Position, SourceMap
from clew.capture.lineage.datasets import ExternalDataset
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges, OperationRecord

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
        self._operations: Counter[str] = Counter()
        self._bound: dict[int, str] = {}
        for name, frame in bound.items():
            self._bound.setdefault(frame, name)

    def operation(self, record: OperationRecord) -> str:
        """Return the operation's name within its cell; repeated names get a number."""
        name = operation_name(record)
        self._operations[name] += 1
        count = self._operations[name]
        return name if count == 1 else f"{name}.{count}"

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


def operation_name(record: OperationRecord) -> str:
    """Return `pandas_<function>` for functions of pandas, `dataframe_<method>` for methods and other backends."""
    method = record.method.strip("_").replace(".", "_").replace("__", "_")
    is_pandas_function = record.is_module_function and record.engine == "pandas"
    return f"pandas_{method}" if is_pandas_function else f"dataframe_{method}"


def reset_counts(execution: Execution, counts: dict[str, int]) -> None:
    """Restart version counting for the variables that the cell defines."""
    prefix = f"{execution.cell.label}/"
    for name in list(counts):
        if name in execution.cell.defines or name.startswith(prefix):
            del counts[name]


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
        self._counts: dict[str, int] = {}
        self._running: dict[str, Execution] = {}
        # Operations of running cells; the variables are known when a cell ends.
        self._partial_records: dict[str, list[OperationEntry]] = {}
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
        elif isinstance(entry, CellProgress):
            self._cell_progressed(entry)
        elif isinstance(entry, CellEnded):
            yield from self._cell_ended(entry)
        else:
            yield from self.close()

    def close(self) -> Iterator[StreamEvent]:
        """Yield the end of the session, also for a killed kernel that did not log it."""
        if self.is_ended:
            return
        self.is_ended = True
        for execution in self._running.values():
            execution.emitted_at = self._last_timestamp
            execution.duration = max(0.0, self._last_timestamp - execution.started_at)
            yield from self._operations(execution, self._partial_records.get(execution.run_id, []), {}, {})
            yield LINEAGE, cell_event(execution, "ABORT", self._cell_engine(execution))
        kind = "ABORT" if self._running else "FAIL" if self._session.failures else "COMPLETE"
        yield LINEAGE, session_event(self._session, kind, self._last_timestamp, self._engine())

    def _session_started(self, entry: SessionStarted) -> StreamEvent:
        self._session = Session(entry.notebook, entry.session_id, entry.run_id)
        self._engines = entry.engines
        return LINEAGE, session_event(self._session, "START", entry.timestamp, self._engine())

    def _cell_started(self, entry: CellStarted) -> Iterator[StreamEvent]:
        self._engines = entry.engines
        self._session.executions += 1
        cell = Cell(entry.cell_id, entry.source, entry.name, entry.index, frozenset(entry.defines))
        execution = Execution(self._session, cell, None, entry.run_id, started_at=entry.timestamp, clock=0.0)
        execution.start_memory_mb = entry.memory_mb
        execution.emitted_at = entry.timestamp
        self._running[entry.run_id] = execution
        if entry.file is not None:
            self._sources.add_cell(entry.source, entry.file, entry.first_line)
        reset_counts(execution, self._counts)
        yield RUNTIME, cell_start_event(execution)
        yield LINEAGE, cell_event(execution, "START", self._engine())

    def _cell_progressed(self, entry: CellProgress) -> None:
        self._add_definitions(entry)
        records = self._partial_records.setdefault(entry.run_id, [])
        for repeat in entry.repeated:
            records[repeat.index] = replace(
                records[repeat.index], count=repeat.count, duration=repeat.duration, overhead=repeat.overhead
            )
        records += entry.records

    def _cell_ended(self, entry: CellEnded) -> Iterator[StreamEvent]:
        self._add_definitions(entry)
        execution = self._running.pop(entry.run_id, None)
        if execution is None:
            # The start of the cell was lost to a full disk; later cells may still reference its frames.
            return
        execution.emitted_at = entry.timestamp
        execution.duration, execution.end_memory_mb = entry.duration, entry.memory_mb
        execution.is_stopped, execution.failure = entry.is_stopped, entry.failure
        self._session.failures += entry.failure is not None
        records = [*self._partial_records.pop(entry.run_id, []), *entry.records]
        metrics = {self._versions[number]: values for number, values in entry.metrics}
        yield from self._operations(execution, records, entry.bound, metrics)
        yield (
            LINEAGE,
            cell_event(execution, "FAIL" if entry.failure is not None else "COMPLETE", self._cell_engine(execution)),
        )
        yield RUNTIME, cell_end_event(execution)

    def _operations(
        self,
        execution: Execution,
        records: list[OperationEntry],
        bound: dict[str, int],
        metrics: dict[FrameVersion, dict[str, Any]],
    ) -> Iterator[StreamEvent]:
        namer = DatasetNamer(execution, bound, self._counts)
        cell_uuid = uuid.UUID(execution.run_id)
        for index, entry in enumerate(records):
            try:
                yield from self._operation(execution, entry, namer, metrics, str(uuid.uuid5(cell_uuid, str(index))))
            except Exception as error:  # noqa: BLE001 - one bad record must not affect the others
                record_error(f"expand {entry.method}", error)

    def _operation(
        self,
        execution: Execution,
        entry: OperationEntry,
        namer: DatasetNamer,
        metrics: dict[FrameVersion, dict[str, Any]],
        run_id: str,
    ) -> Iterator[StreamEvent]:
        record = self._decode_record(entry)
        execution.records.append(record)
        location = self._sources.locate(Position(*entry.position) if entry.position is not None else None)
        for version in record.inputs():
            namer.name_input(version)
        operation = namer.operation(record)
        namer.assign_name(record, operation, location)
        events = OperationEvents(execution, record, operation, location, metrics, run_id, self._engine(record.engine))
        for event in events.openlineage_events():
            yield LINEAGE, event
        if record.error is None:
            yield DATAFRAME, events.dataframe_event()

    def _cell_engine(self, execution: Execution) -> tuple[str, str]:
        """Return the engine of the first operation of a cell."""
        return self._engine(next((record.engine for record in execution.records), None))

    def _engine(self, name: str | None = None) -> tuple[str, str]:
        """Return name and version of a backend, by default of the first that is loaded."""
        name = name or next(iter(self._engines), "pandas")
        return name, self._engines.get(name, "unknown")

    def _add_definitions(self, entry: CellProgress | CellEnded) -> None:
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
        version.engine = entry.engine
        version.dataset = ExternalDataset(*entry.dataset) if entry.dataset is not None else None
        version.first_iteration = (
            self._versions.get(entry.first_iteration) if entry.first_iteration is not None else None
        )
        if entry.blocks is not None:
            _decode_blocks(version, entry.blocks)
        return version

    def _decode_record(self, entry: OperationEntry) -> OperationRecord:
        fields = {_decode_label(label): self._decode_provenance(sources) for label, sources in entry.fields}
        edges = (
            ExplicitEdges(fields)
            if entry.source is None
            else IdentityEdges(self._versions[entry.source], entry.flags, fields)
        )
        record = OperationRecord(
            entry.method, entry.kind, None if entry.output is None else self._versions[entry.output], edges
        )
        record.rows = self._decode_provenance(entry.rows)
        record.parents = tuple(self._versions[number] for number in entry.parents)
        record.read_from = self._versions[entry.read_from] if entry.read_from is not None else None
        record.is_module_function = entry.is_module_function
        record.started, record.duration, record.overhead = entry.started, entry.duration, entry.overhead
        record.count, record.error = entry.count, entry.error
        record.engine = entry.engine
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
        version.nbytes = row_bytes * version.shape[0]


class _LabelList(list[Any]):
    """List of labels with O(1) membership tests."""

    def __contains__(self, label: object) -> bool:
        if not hasattr(self, "_set"):
            self._set = frozenset(self)
        return label in self._set


def _decode_label(value: Any) -> Hashable:
    """Restore tuples, which JSON stores as lists."""
    return tuple(map(_decode_label, value)) if isinstance(value, list) else value
