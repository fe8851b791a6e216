"""From executions to the kernel's log: numbers are given, nothing is expanded."""

from __future__ import annotations

import itertools
import os
import sys
import time
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from msgspec.structs import replace

from clew.capture import sessions
from clew.capture.losses import count_loss, loss_summary, notice_once
from clew.capture.records import Record, SameLabels, grounded
from clew.capture.sources import first_line_of, position_of
from clew.capture.streams.endpoint import find_endpoint
from clew.capture.streams.entries import (
    Blocks,
    CellEnded,
    CellGoesOn,
    CellStarted,
    Dependency,
    Labels,
    Recorded,
    Repeated,
    SessionEnded,
    SessionStarted,
    SourcePart,
    Version,
    encode_entry,
)
from clew.capture.streams.failures import failure_of
from clew.capture.streams.metrics import Held, frames_held, measured
from clew.capture.versions import TEXT_BYTES, FrameVersion, label_list, paired
from clew.garbage import uncollected

if TYPE_CHECKING:
    from collections.abc import Hashable
    from types import CodeType

    from clew.capture.provenance import Provenance
    from clew.capture.sessions import Execution, Session
    from clew.capture.streams.log import KernelLog
    from clew.capture.streams.worker import Worker

# An operation that ended so long ago is complete; whoever made a later one may still add to it.
_SECONDS_TO_FINISH = 0.25
_TYPES_KEPT = 64
# As the log writes it, with the type and the places that it was made of.
Block: TypeAlias = "tuple[Blocks, Any, Any]"
_numbers = itertools.count(1)
_sinks: WeakSet[LogSink] = WeakSet()


def _forget_in_child() -> None:
    for sink in list(_sinks):
        sink.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


class LogSink:
    """Writes the log of one session, and sees to it that somebody expands it."""

    def __init__(self, log: KernelLog, worker: Worker) -> None:
        self._log = log
        self._worker = worker
        self._codes: dict[str, tuple[CodeType, int | None]] = {}
        self._known = _Known()
        _sinks.add(self)

    def forget(self) -> None:
        """In a forked child: log and worker are the parent's."""
        self._log.forget()
        self._worker.forget()

    def execution_started(self, execution: Execution) -> None:
        """Write the start of a cell, and of the session before its first."""
        session, cell, code = execution.session, execution.cell, execution.code
        if session.executions == 0:
            self._append(SessionStarted(time.time(), session.notebook, session.session_id, session.run_id, _engine()))
        session.executions += 1
        first_line = self._first_line(cell.id, code)
        if code is not None:
            session.sources.add_cell(cell.source, code.co_filename, first_line)
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
                first_line,
                _engine(),
            )
        )

    def part_found(self, session: Session, file: str, text: str, lines: tuple[int, int]) -> None:
        """Write that lines of a file are a cell of their own."""
        session.sources.add_part(file, text, *lines)
        self._append(SourcePart(file, text, *lines))

    def execution_goes_on(self, execution: Execution) -> None:
        """Write what a running cell did until a moment ago."""
        with sessions.settling:
            if not execution.is_over:
                execution.settle(time.perf_counter() - _SECONDS_TO_FINISH)
                self._tell_so_far(execution)

    def _tell_so_far(self, execution: Execution) -> None:
        told = _Told(self._known)
        logged, first = execution.logged, len(execution.logged)
        repeated = [
            Repeated(place, record.count, record.duration, record.overhead)
            for place, (record, count) in enumerate(logged)
            if record.count != count
        ]
        fresh = told.records(execution)
        if not fresh and not repeated:
            return
        for one in repeated:
            logged[one.place] = (logged[one.place][0], one.count)
        line, written = _encoded(CellGoesOn(time.time(), execution.run_id, told.labels, told.versions, fresh, repeated))
        logged[first:] = [logged[first + place] for place, one in enumerate(fresh) if one in written]
        if not self._log.append(line):
            # What it told is lost with it, and must be told again.
            self._known = _Known()
            del logged[first:]

    def execution_ended(self, execution: Execution, namespace: dict[str, Any]) -> None:
        """Write the operations of a cell and its end."""
        with sessions.settling, uncollected():
            execution.is_over = True
            execution.settle()
            if execution.logged:
                self._tell_so_far(execution)
            self._tell_end(execution, namespace)
        # A script is a single cell, expanded when it ends; to send what it did, a worker is needed all the same.
        if not execution.session.is_script or find_endpoint() is not None:
            self._worker.start()

    def _tell_end(self, execution: Execution, namespace: dict[str, Any]) -> None:
        held = frames_held(namespace)
        told = _Told(self._known)
        records = told.records(execution)
        metrics = [(told.number(version), found) for version, found in measured(execution, held).items()]
        for record in execution.records:
            record.output = None
        ended = CellEnded(
            time.time(),
            execution.run_id,
            execution.duration,
            execution.end_memory_mb,
            execution.is_stopped,
            failure_of(execution.error, execution.cell.source) if execution.error is not None else None,
            _engine(),
            _bound(held),
            told.labels,
            told.versions,
            records,
            metrics,
        )
        if not self._log.append(_encoded(ended)[0]):
            # What it told of frames is lost with it, and must be told again.
            self._known = _Known()

    def session_ended(self, session: Session) -> None:
        """Write the end of the session, have it expanded, and say what was lost."""
        if session.executions:
            self._append(SessionEnded(time.time()))
        self._log.close()
        if session.executions:
            self._worker.finish()
        summary = loss_summary()
        if summary is not None:
            notice_once(summary)

    def _append(self, entry: Any) -> None:
        self._log.append(encode_entry(entry) + b"\n")

    def _first_line(self, cell_id: str, code: CodeType | None) -> int | None:
        """The first line of a cell's code, which is walked through once for as long as the cell is not edited."""
        if code is None:
            return None
        known = self._codes.get(cell_id)
        if known is None or known[0] is not code:
            known = self._codes[cell_id] = (code, first_line_of(code))
        return known[1]


class _Known:
    """What stands in the log: versions and lists of labels bear it as a mark."""


class _Told:
    """What one cell tells of versions and labels that the log does not know yet."""

    def __init__(self, known: _Known) -> None:
        self._known = known
        self.labels: list[Labels] = []
        self.versions: list[Version] = []
        self._blocks: dict[tuple[int, int], Block] = {}

    def records(self, execution: Execution) -> list[Recorded]:
        """The records of an execution that were not told before, in numbers."""
        found = []
        for record in execution.records[execution.looked_at :]:
            try:
                one = self._recorded(record, execution.clock)
            except Exception as error:  # noqa: BLE001 - labels are the user's own objects
                count_loss(f"tell {record.method}", error)
                continue
            found.append(one)
            execution.logged.append((record, one.count))
        execution.looked_at = len(execution.records)
        return found

    def _recorded(self, record: Record, clock: float) -> Recorded:
        edges, output, read_from = record.edges, record.output, record.read_from
        source, flags = None, 0
        changed: dict[Hashable, Provenance] | None
        if edges.__class__ is not SameLabels:
            changed = edges.by_label  # type: ignore[union-attr]
        elif edges.source.substitutes is None and edges.source.base is None:
            source, flags, changed = self.number(edges.source), edges.flags, edges.changed
        else:
            # A frame that stood in for another inside a callback is known to nobody outside of it.
            changed = record.fields_of(output) if output is not None else None
        types = record.written_types
        return Recorded(
            record.method,
            record.kind,
            record.is_module_function,
            position_of(record.code, record.instruction) if record.code is not None else None,
            record.started - clock,
            record.duration,
            record.overhead,
            record.count,
            record.error,
            self.number(output) if output is not None else None,
            self._parents(record.parents),
            self.number(read_from) if read_from is not None else None,
            source,
            flags,
            [(label, self._dependencies(found)) for label, found in changed.items()] if changed else [],
            self._dependencies(record.rows) if record.rows else [],
            list(types.items()) if types is not None else None,
        )

    def _parents(self, parents: tuple[FrameVersion, ...]) -> list[int]:
        if len(parents) == 1 and parents[0].substitutes is None:
            return [self.number(parents[0])]
        return [self.number(real) for parent in parents for real in grounded(parent)]

    def number(self, version: FrameVersion) -> int:
        """A version's number in the log, which is told what it is when it is first met."""
        if version.logged_in is not self._known:
            version.logged_as = next(_numbers)
            version.logged_in = self._known
            self.versions.append(self._version(version))
        return version.logged_as

    def _dependencies(self, provenance: Provenance) -> list[Dependency]:
        known = self._known
        return [
            (version.logged_as if version.logged_in is known else self.number(version), label, flags)
            for (version, label), flags in provenance.items()
        ]

    def _version(self, version: FrameVersion) -> Version:
        return Version(
            version.logged_as,
            version.uid,
            version.object_id,
            self._labels(version.columns),
            list(version.index_names),
            version.shape,
            self._columns_by_type(version.blocks) if version.blocks is not None else None,
            version.nbytes,
            version.dataset,
            self.number(version.repeats) if version.repeats is not None else None,
        )

    def _columns_by_type(self, blocks: list[Any]) -> Blocks:
        """The types of a version and the places of their columns; a frame made of another shares most of them."""
        found: Blocks = []
        told = self._blocks
        for dtype, places in paired(blocks):
            known = told.get((id(dtype), id(places)))
            if known is None:
                # Both are kept, so that no other takes their ids.
                known = told[id(dtype), id(places)] = (_block(dtype, places), dtype, places)
            found += known[0]
        return found

    def _labels(self, columns: Any) -> int:
        """The number of some labels; frames share their Index, so that a wide one is written once."""
        known = label_list(columns)
        if known.logged_in is not self._known:
            known.logged_as = next(_numbers)
            known.logged_in = self._known
            self.labels.append(Labels(known.logged_as, known.labels))
        return known.logged_as


# By identity, since the types of pandas hash themselves in Python; kept, so that no other takes its id.
_types: dict[int, tuple[Any, str, int]] = {}


def _block(dtype: Any, places: Any) -> Blocks:
    """A type and the places of its columns, as the log writes them."""
    _, name, width = _types.get(id(dtype)) or _type(dtype)
    indexer = getattr(places, "indexer", None)
    if indexer.__class__ is slice and indexer.step > 0:
        return [name, width, indexer.start, indexer.stop, indexer.step]
    return [name, width, [int(place) for place in places], None, None]


def _type(dtype: Any) -> tuple[Any, str, int]:
    if len(_types) >= _TYPES_KEPT:
        # A categorical type holds its categories.
        _types.clear()
    known = _types[id(dtype)] = (dtype, str(dtype), getattr(dtype, "itemsize", TEXT_BYTES))
    return known


def _bound(held: list[Held]) -> dict[str, int]:
    """Variables by name, with the frame that each holds."""
    bound: dict[str, int] = {}
    for name, _, version in held:
        bound[name] = version.uid
        version.name = version.name or name
    return bound


def _engine() -> str:
    return getattr(sys.modules.get("pandas"), "__version__", "unknown")


def _encoded(entry: CellGoesOn | CellEnded) -> tuple[bytes, list[Recorded]]:
    """What a cell did as a line of JSON, less the records whose labels fail when they are turned to text."""
    try:
        return encode_entry(entry) + b"\n", entry.records
    except Exception:  # noqa: BLE001 - labels are the user's own objects
        labels = [Labels(one.number, [*map(_writable, one.labels)]) for one in entry.labels]
        versions = [replace(one, index_names=[*map(_writable, one.index_names)]) for one in entry.versions]
        records = [one for one in entry.records if _is_writable(one)]
        return encode_entry(replace(entry, labels=labels, versions=versions, records=records)) + b"\n", records


def _writable(label: Any) -> Any:
    try:
        encode_entry(label)
    except Exception:  # noqa: BLE001 - labels are the user's own objects
        return f"<{type(label).__name__}>"
    return label


def _is_writable(record: Recorded) -> bool:
    try:
        encode_entry(record)
    except Exception as error:  # noqa: BLE001 - labels are the user's own objects
        count_loss(f"tell {record.method}", error)
        return False
    return True
