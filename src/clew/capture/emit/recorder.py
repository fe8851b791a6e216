"""Encode executions into the kernel log, and flush it periodically."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from msgspec.structs import replace

from clew._gc import gc_paused
from clew.capture.backends.base import (
    BoundFrame,
    RunningOperation,
    bound_frames,
    engine_versions,
    find_running_operation,
)
from clew.capture.diagnostics import (
    CaptureLoss,
    error_summary,
    pending_losses,
    record_error,
    take_losses,
    warn_once,
)
from clew.capture.emit.column_metrics import collect_metrics
from clew.capture.emit.delivery import find_endpoint
from clew.capture.emit.files import (
    Blocks,
    CellEnded,
    CellProgress,
    CellStarted,
    Dependency,
    LabelsEntry,
    OperationEntry,
    OperationStarted,
    RepeatEntry,
    SessionEnded,
    SessionStarted,
    SetupCellSource,
    VersionEntry,
    encode_entry,
)
from clew.capture.emit.redaction import describe_failure
from clew.capture.environments import session as session_module  # its lock is replaced after a fork
from clew.capture.introspection.source_map import position_of, start_of
from clew.capture.lineage.frame_version import TEXT_ITEM_BYTES, FrameVersion, cached_labels, iter_blocks
from clew.capture.lineage.operations import IdentityEdges, OperationRecord, resolve_version_aliases

if TYPE_CHECKING:
    from collections.abc import Hashable
    from types import CodeType

    from clew.capture.emit.files import KernelLog
    from clew.capture.emit.worker import Worker
    from clew.capture.environments.session import Execution, Session
    from clew.capture.lineage.provenance import Provenance


_INTERVAL_SECONDS = 0.25
# An operation that runs for this long is written before it ends.
_LONG_SECONDS = 0.1
# Running executions with their threads.
_running: dict[Execution, int] = {}
_threads: list[threading.Thread] = []


def register(execution: Execution) -> None:
    """Add an execution to the periodic flush; starts the thread if needed."""
    _running[execution] = threading.get_ident()
    if not _threads:
        thread = threading.Thread(target=_run, name="clew-ticker", daemon=True)
        _threads.append(thread)
        # Without threads, operations are written at the end of their cell.
        with contextlib.suppress(RuntimeError):
            thread.start()


def unregister(execution: Execution) -> None:
    """Remove an ended execution, which writes the rest itself."""
    _running.pop(execution, None)


def _run() -> None:
    while True:
        time.sleep(_INTERVAL_SECONDS)
        for execution, thread in list(_running.items()):
            try:
                execution.session.recorder.execution_progressed(execution, thread)
            except Exception as error:  # noqa: BLE001 - retried at the next interval
                record_error("cell", error)


# Records of operations that ended at least this long ago are complete; a later one may still be changed.
_COMPLETE_AFTER_SECONDS = 0.25
_MAX_TYPES = 64
# Encoded block, with the dtype and the positions it was made from.
Block: TypeAlias = "tuple[Blocks, Any, Any]"
_numbers = itertools.count(1)
_recorders: WeakSet[KernelLogRecorder] = WeakSet()


def _after_fork_in_child() -> None:
    for recorder in list(_recorders):
        recorder.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class KernelLogRecorder(session_module.Recorder):
    """Writes the kernel log of one session and starts the worker that expands it."""

    def __init__(self, log: KernelLog, worker: Worker) -> None:
        self._log = log
        self._worker = worker
        self._codes: dict[str, tuple[CodeType, tuple[int, int] | None]] = {}
        self._generation = _LogGeneration()
        # Losses in the lines of running cells, which are written with the end of the next cell.
        self._losses: list[CaptureLoss] = []
        # Start of the last operation that was written before it ended.
        self._last_start = 0.0
        _recorders.add(self)

    def after_fork(self) -> None:
        """Detach from the log and the worker of the parent in a forked child."""
        self._log.after_fork()
        self._worker.after_fork()

    def execution_started(self, execution: Execution) -> None:
        """Write the start of a cell, and before the first one the start of the session."""
        session, cell, code = execution.session, execution.cell, execution.code
        if session.executions == 0:
            self._append(
                SessionStarted(
                    time.time(),
                    session.notebook,
                    session.session_id,
                    session.run_id,
                    engine_versions(),
                    str(session.path.absolute()) if session.path is not None else None,
                )
            )
        session.executions += 1
        start = self._start(cell.id, code)
        if code is not None:
            session.sources.add_cell(cell.source, code.co_filename, start)
        self._append(
            CellStarted(
                execution.started_at,
                execution.run_id,
                cell.id,
                cell.source,
                cell.name,
                cell.index,
                sorted(cell.defines),
                execution.start_memory_mb,
                code.co_filename if code is not None else None,
                start,
                engine_versions(),
            )
        )
        if not session.is_script:
            self._worker.start()

    def setup_cell_found(self, session: Session, file: str, text: str, lines: tuple[int, int]) -> None:
        """Write the source of the setup cell."""
        session.sources.add_line_range(file, text, *lines)
        self._append(SetupCellSource(file, text, *lines))

    def execution_progressed(self, execution: Execution, thread: int | None = None) -> None:
        """Write the completed operations of a running cell, and the one that its thread is in."""
        with session_module.records_lock:
            if execution.is_ended:
                return
            execution.flush(time.perf_counter() - _COMPLETE_AFTER_SECONDS)
            self._write_progress(execution)
            operation = find_running_operation(thread) if thread is not None else None
            if operation is not None and self._is_new_start(execution, operation):
                self._write_start(execution, operation)
            # Also for a script, which is a single cell: its start must not wait for its end.
            self._worker.start()

    def _is_new_start(self, execution: Execution, operation: RunningOperation) -> bool:
        location = operation.location
        if location.started == self._last_start or time.perf_counter() - location.started < _LONG_SECONDS:
            return False
        # An iteration of a loop is part of the first one, except that each file is an operation.
        key = (id(location.code), location.instruction)
        queued = [(id(record.code), record.instruction) for record in tuple(execution.queue)]
        return operation.kind == "io" or not (key in execution.by_location or key in queued)

    def _write_start(self, execution: Execution, operation: RunningOperation) -> None:
        code, instruction, started, _ = operation.location
        self._last_start = started
        encoder = _CellEncoder(self._generation)
        parents = [encoder.version_number(version) for version in operation.parents]
        entry = OperationStarted(
            time.time(),
            execution.run_id,
            engine_versions(),
            encoder.labels,
            encoder.versions,
            operation.method,
            operation.kind,
            operation.is_module_function,
            position_of(code, instruction),
            started - execution.clock,
            parents,
            operation.engine,
            operation.query,
        )
        if not self._log.append(_encode_line(entry)[0]):
            self._generation = _LogGeneration()

    def _write_progress(self, execution: Execution) -> None:
        encoder = _CellEncoder(self._generation)
        encoder.losses = self._losses
        logged, first = execution.logged, len(execution.logged)
        repeats = [
            RepeatEntry(index, record.count, record.duration, record.overhead)
            for index, (record, count) in enumerate(logged)
            if record.count != count
        ]
        operations = encoder.encode_records(execution)
        if not operations and not repeats:
            return
        for repeat in repeats:
            logged[repeat.index] = (logged[repeat.index][0], repeat.count)
        line, written = _encode_line(
            CellProgress(
                time.time(), execution.run_id, engine_versions(), encoder.labels, encoder.versions, operations, repeats
            )
        )
        logged[first:] = [logged[first + index] for index, operation in enumerate(operations) if operation in written]
        if not self._log.append(line):
            # Its version and label numbers are lost with it and must be written again.
            self._generation = _LogGeneration()
            del logged[first:]

    def execution_ended(self, execution: Execution, namespace: dict[str, Any]) -> None:
        """Write the operations of a cell and its end."""
        with session_module.records_lock, gc_paused():
            execution.is_ended = True
            execution.flush()
            if execution.logged:
                self._write_progress(execution)
            self._write_end(execution, namespace)
            # A short script is expanded when it ends; a worker is needed only to send its events.
            if execution.session.is_script and find_endpoint() is not None:
                self._worker.start()

    def _write_end(self, execution: Execution, namespace: dict[str, Any]) -> None:
        frames = bound_frames(namespace)
        encoder = _CellEncoder(self._generation)
        records = encoder.encode_records(execution)
        metrics = [
            (encoder.version_number(version), values) for version, values in collect_metrics(execution, frames).items()
        ]
        descriptions = _describe_columns(execution, frames, encoder)
        for record in execution.records:
            record.output = None
        ended = CellEnded(
            time.time(),
            execution.run_id,
            execution.duration,
            execution.end_memory_mb,
            execution.is_stopped,
            describe_failure(execution.error, execution.cell.source) if execution.error is not None else None,
            engine_versions(),
            _variable_frames(frames),
            encoder.labels,
            encoder.versions,
            records,
            metrics,
            descriptions,
            [*self._losses, *encoder.losses, *take_losses(execution.run_id)],
        )
        self._losses.clear()
        if not self._log.append(_encode_line(ended)[0]):
            # Its version and label numbers are lost with it and must be written again.
            self._generation = _LogGeneration()

    def session_ended(self, session: Session) -> None:
        """Write the end of the session, expand its log and warn about capture errors."""
        if session.executions:
            self._append(SessionEnded(time.time(), take_losses(session.run_id)))
        self._log.close()
        if session.executions:
            self._worker.finish()
        summary = error_summary()
        if summary is not None:
            warn_once(summary)

    def _append(self, entry: Any) -> None:
        self._log.append(encode_entry(entry) + b"\n")

    def _start(self, cell_id: str, code: CodeType | None) -> tuple[int, int] | None:
        """Return the start of a cell's code, cached until the cell is compiled again."""
        if code is None:
            return None
        cached = self._codes.get(cell_id)
        if cached is None or cached[0] is not code:
            cached = self._codes[cell_id] = (code, start_of(code))
        return cached[1]


class _LogGeneration:
    """Marker of a log generation on the versions and labels that were written to it."""


class _CellEncoder:
    """Encodes the records of one cell, with the versions and labels that are not in the log yet."""

    def __init__(self, generation: _LogGeneration) -> None:
        self._generation = generation
        self.labels: list[LabelsEntry] = []
        self.versions: list[VersionEntry] = []
        self._blocks: dict[tuple[int, int], Block] = {}
        self.losses: list[CaptureLoss] = []

    def encode_records(self, execution: Execution) -> list[OperationEntry]:
        """Encode the records of an execution that were not encoded before."""
        entries = []
        for record in execution.records[execution.encoded_count :]:
            try:
                entry = self._encode_record(record, execution.clock)
            except Exception as error:  # noqa: BLE001 - labels are the user's own objects
                record_error(f"encode {record.method}", error)
                self._take_losses(execution, record)
                continue
            if pending_losses:
                # The query of the record could not be parsed.
                self._take_losses(execution, record)
            entries.append(entry)
            execution.logged.append((record, entry.count))
        execution.encoded_count = len(execution.records)
        return entries

    def _take_losses(self, execution: Execution, record: OperationRecord) -> None:
        position = position_of(record.code, record.instruction) if record.code is not None else None
        self.losses += take_losses(execution.run_id, position)

    def _encode_record(self, record: OperationRecord, clock: float) -> OperationEntry:
        edges, output, read_from = record.edges, record.output, record.read_from
        source, flags = None, 0
        changed: dict[Hashable, Provenance] | None
        if edges.__class__ is not IdentityEdges:
            changed = edges.by_label  # type: ignore[union-attr]
        elif edges.source.overrides is None and edges.source.base is None:
            source, flags, changed = self.version_number(edges.source), edges.flags, edges.changed
        else:
            # An alias is not known outside of its callback.
            changed = record.fields_of(output) if output is not None else None
        types = record.written_types
        return OperationEntry(
            record.method,
            record.kind,
            record.is_module_function,
            position_of(record.code, record.instruction) if record.code is not None else None,
            record.started - clock,
            record.duration,
            record.overhead,
            record.count,
            record.error,
            self.version_number(output) if output is not None else None,
            self._parent_numbers(record.parents),
            self.version_number(read_from) if read_from is not None else None,
            source,
            flags,
            [(label, self._encode_dependencies(sources)) for label, sources in changed.items()] if changed else [],
            self._encode_dependencies(record.rows) if record.rows else [],
            list(types.items()) if types is not None else None,
            record.engine,
            getattr(getattr(record, "query", None), "text", None),
        )

    def _parent_numbers(self, parents: tuple[FrameVersion, ...]) -> list[int]:
        if len(parents) == 1 and parents[0].overrides is None:
            return [self.version_number(parents[0])]
        return [self.version_number(real) for parent in parents for real in resolve_version_aliases(parent)]

    def version_number(self, version: FrameVersion) -> int:
        """Return a version's number in the log; write the version if it is new."""
        if version.log_generation is not self._generation:
            version.log_number = next(_numbers)
            version.log_generation = self._generation
            self.versions.append(self._encode_version(version))
        return version.log_number

    def _encode_dependencies(self, provenance: Provenance) -> list[Dependency]:
        generation = self._generation
        return [
            (version.log_number if version.log_generation is generation else self.version_number(version), label, flags)
            for (version, label), flags in provenance.items()
        ]

    def _encode_version(self, version: FrameVersion) -> VersionEntry:
        return VersionEntry(
            version.log_number,
            version.uid,
            version.object_id,
            self._labels_number(version.columns),
            list(version.index_names),
            version.shape,
            self._encode_blocks(version.blocks) if version.blocks is not None else None,
            version.nbytes,
            version.dataset,
            self.version_number(version.first_iteration) if version.first_iteration is not None else None,
            version.engine,
            version.file_bytes,
        )

    def _encode_blocks(self, blocks: list[Any]) -> Blocks:
        """Encode types and column positions of a version; derived frames share most blocks."""
        encoded: Blocks = []
        cache = self._blocks
        for dtype, positions in iter_blocks(blocks):
            cached = cache.get((id(dtype), id(positions)))
            if cached is None:
                # The value holds both objects so that their ids stay valid.
                cached = cache[id(dtype), id(positions)] = (_encode_block(dtype, positions), dtype, positions)
            encoded += cached[0]
        return encoded

    def _labels_number(self, columns: Any) -> int:
        """Return the number of column labels in the log; frames share their Index, so a wide one is written once."""
        labels = cached_labels(columns)
        if labels.log_generation is not self._generation:
            labels.log_number = next(_numbers)
            labels.log_generation = self._generation
            self.labels.append(LabelsEntry(labels.log_number, labels.labels))
        return labels.log_number


# Keyed by id(dtype), since pandas types have a slow Python hash; the value holds the dtype so that its id stays valid.
_type_cache: dict[int, tuple[Any, str, int]] = {}


def _encode_block(dtype: Any, positions: Any) -> Blocks:
    """Encode a type and the positions of its columns."""
    _, name, width = _type_cache.get(id(dtype)) or _describe_type(dtype)
    indexer = getattr(positions, "indexer", None)
    if indexer.__class__ is slice and indexer.step > 0:
        # NumPy integers in frames that pandas concatenated.
        return [name, width, int(indexer.start), int(indexer.stop), int(indexer.step)]
    return [name, width, [int(position) for position in positions], None, None]


def _describe_type(dtype: Any) -> tuple[Any, str, int]:
    if len(_type_cache) >= _MAX_TYPES:
        # Bounded, since a categorical type holds its categories.
        _type_cache.clear()
    described = _type_cache[id(dtype)] = (dtype, str(dtype), getattr(dtype, "itemsize", TEXT_ITEM_BYTES))
    return described


def _variable_frames(frames: list[BoundFrame]) -> dict[str, int]:
    """Map variable names to the frames they hold, and name those frames."""
    bound: dict[str, int] = {}
    for name, _, version in frames:
        bound[name] = version.uid
        version.name = version.name or name
    return bound


def _describe_columns(
    execution: Execution, frames: list[BoundFrame], encoder: _CellEncoder
) -> list[tuple[int, dict[str, str]]]:
    """Return `attrs["descriptions"]` of the frames that the execution produced."""
    made = {record.output for record in execution.records}
    described = [
        (version, getattr(frame, "_attrs", {}).get("descriptions")) for _, frame, version in frames if version in made
    ]
    return [
        (encoder.version_number(version), {str(label): str(text) for label, text in texts.items()})
        for version, texts in described
        if isinstance(texts, dict) and texts
    ]


def _encode_line(entry: OperationStarted | CellProgress | CellEnded) -> tuple[bytes, list[OperationEntry]]:
    """Encode an entry as a line of JSON, without records with labels that cannot be converted to text."""
    records = entry.records if not isinstance(entry, OperationStarted) else []
    try:
        return encode_entry(entry) + b"\n", records
    except Exception:  # noqa: BLE001 - labels are the user's own objects
        labels = [LabelsEntry(item.number, [*map(_to_encodable, item.labels)]) for item in entry.labels]
        versions = [replace(item, index_names=[*map(_to_encodable, item.index_names)]) for item in entry.versions]
        changes: dict[str, Any] = {"labels": labels, "versions": versions}
        if not isinstance(entry, OperationStarted):
            changes["records"] = records = [record for record in records if _is_encodable(record)]
        return encode_entry(replace(entry, **changes)) + b"\n", records


def _to_encodable(label: Any) -> Any:
    try:
        encode_entry(label)
    except Exception:  # noqa: BLE001 - labels are the user's own objects
        return f"<{type(label).__name__}>"
    return label


def _is_encodable(record: OperationEntry) -> bool:
    try:
        encode_entry(record)
    except Exception as error:  # noqa: BLE001 - labels are the user's own objects
        record_error(f"encode {record.method}", error)
        return False
    return True
