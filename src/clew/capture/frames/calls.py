"""Calls as the rules see them, and the records that rules make of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from msgspec import Struct
from pandas.api.extensions import ExtensionArray

from clew.capture.bytecode import literals_of, operands_of
from clew.capture.callers import is_user_code
from clew.capture.flags import IDENTITY, INFERRED, TRANSFORMATION
from clew.capture.frames.operators import SUBJECT_FIRST
from clew.capture.frames.state import inferred, is_scalar, provenance_of, version_of
from clew.capture.loops import folded
from clew.capture.provenance import Provenance, mark_series, remember_array, remember_scalar, through, union
from clew.capture.records import Kind, Listed, Record, SameLabels
from clew.capture.sessions import current_execution
from clew.capture.statements import names_loaded, note_scalar, reads_of, scalars_behind
from clew.capture.streams.failures import message_of
from clew.capture.versions import STATE, FrameVersion, give_state

if TYPE_CHECKING:
    from collections.abc import Hashable
    from types import FrameType

    from clew.capture.bytecode import Span

_clock = time.perf_counter
_ITEMS_COMPARED = 64


class Call(Struct, eq=False):
    """One call of the user: the method, its subject and arguments, the result, and who called."""

    name: str
    subject: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    before: Any
    frame: FrameType
    is_module_function: bool = False
    result: Any = None
    # Where nothing sets them, an operation took no time at the moment it was seen.
    started: float = 0.0
    ended: float = 0.0

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument given by position or by name."""
        if name in self.kwargs:
            return self.kwargs[name]
        return self.args[position] if len(self.args) > position else default

    def values(self) -> list[Any]:
        """All arguments."""
        return [*self.args, *self.kwargs.values()] if self.kwargs else list(self.args)

    @property
    def is_in_place(self) -> bool:
        """Whether the call changed its subject instead of returning a new object."""
        return bool(self.kwargs.get("inplace")) and (self.result is None or self.result is self.subject)

    @property
    def target(self) -> Any:
        """The frame that the call made or changed."""
        return self.subject if self.is_in_place else self.result


def made(
    call: Call,
    kind: Kind,
    edges: SameLabels | Listed,
    rows: Provenance | None = None,
    parents: tuple[FrameVersion, ...] = (),
    frame: Any = None,
    method: str | None = None,
) -> Record:
    """Record that the call made a frame (its result unless `frame` is given)."""
    frame = call.result if frame is None else frame
    version = FrameVersion.of(frame)
    give_state(frame, version)
    # The first to be marked is the frame that the index was made with: others only share it.
    index = frame._mgr.axes[1]
    if getattr(index, STATE) is None:
        give_state(index, version)
    return record(call, kind, version, edges, rows, parents, method)


def changed(
    call: Call,
    kind: Kind,
    edges: SameLabels | Listed,
    rows: Provenance | None = None,
    frame: Any = None,
    before: FrameVersion | None = None,
    method: str | None = None,
) -> Record:
    """Record that the call changed its subject, or `frame`, in place."""
    frame = call.subject if frame is None else frame
    before = call.before if before is None else before
    version = FrameVersion.of(frame, uid=before.uid)
    version.name = before.name
    give_state(frame, version)
    return record(call, kind, version, edges, rows, (before,), method)


def made_or_changed(call: Call, kind: Kind, edges: SameLabels | Listed, rows: Provenance | None = None) -> None:
    """Record a method that takes `inplace`."""
    if call.is_in_place:
        changed(call, kind, edges, rows)
    elif isinstance(call.result, pd.DataFrame):
        made(call, kind, edges, rows, (call.before,))


def record(
    call: Call,
    kind: Kind,
    version: FrameVersion,
    edges: SameLabels | Listed,
    rows: Provenance | None,
    parents: tuple[FrameVersion, ...],
    method: str | None = None,
) -> Record:
    """Make the record and hand it to the running execution."""
    frame, started, ended = call.frame, call.started, call.ended
    if not started:
        # A wrapper that did not time its call: it is dated by its end, and its duration is not known.
        started = ended = ended or _clock()
    entry = Record(
        method or call.name,
        kind,
        version,
        edges,
        rows or {},
        parents,
        call.is_module_function,
        frame.f_code,
        frame.f_lasti,
        started,
        ended - started,
    )
    earlier = parents[0].made_by if len(parents) == 1 else None
    is_next_round = earlier is not None and earlier.instruction == entry.instruction and earlier.code is entry.code
    version.made_by = folded(entry) if is_next_round else entry
    hand_over(entry, ended)
    return entry


def hand_over(entry: Record, ended: float) -> None:
    """Give a record of what ended just now to the running execution."""
    execution = current_execution()
    if execution is None:
        entry.output = None
    elif is_user_code(entry.code):  # type: ignore[arg-type]
        entry.overhead = _clock() - ended
        execution.add(entry)
    else:
        # A library at work: told only if what it made reaches the user's code.
        entry.is_pending = True
        execution.session.has_pending = True


def failed(call: Call, error: BaseException) -> None:
    """Record that a call of the user raised."""
    execution = current_execution()
    if execution is None or not isinstance(error, Exception) or not is_user_code(call.frame.f_code):
        return
    parents = (call.before,) if isinstance(call.before, FrameVersion) else ()
    frame, ended = call.frame, _clock()
    started = call.started or ended
    entry = Record(call.name, "unknown", None, Listed({}), {}, parents, call.is_module_function)
    entry.code, entry.instruction = frame.f_code, frame.f_lasti
    entry.started, entry.duration = started, ended - started
    entry.error = (type(error).__name__, message_of(error, execution.cell.source))
    hand_over(entry, ended)


def spread(call: Call, provenance: Provenance, kind: Kind = "transformation") -> None:
    """Give one provenance to whatever the call returned."""
    result = call.result
    if isinstance(result, pd.Series):
        mark_series(result, provenance)
    elif isinstance(result, pd.DataFrame):
        labels = [*result.columns, *[name for name in result.index.names if name is not None]]
        made(call, kind, Listed(dict.fromkeys(labels, provenance)))
    elif isinstance(result, (np.ndarray, ExtensionArray)):
        remember_array(result, provenance)
    elif isinstance(result, pd.Index):
        mark_series(result, provenance, {result.name: provenance} if result.name is not None else None)
    elif is_scalar(result):
        took(call.frame, result, provenance)


def took(frame: FrameType, value: Any, provenance: Provenance) -> None:
    """A single value was taken out of a Series or a frame."""
    if provenance:
        remember_scalar(value, provenance)
        note_scalar(frame, provenance)


def value_provenance(value: Any, call: Call) -> Provenance:
    """The provenance of a value that is stored in a frame; guessed from the statement for values that left pandas."""
    provenance = provenance_of(value)
    if provenance is not None:
        return (
            provenance if value.__class__ is pd.Series or not _holds_scalars(value) else _of_scalars(provenance, call)
        )
    if is_scalar(value):
        return _scalar_provenance(value, call)
    if isinstance(value, pd.Index) or is_literal(value, call):
        return {}
    return statement_provenance(call, worked_out(value, call))


def _holds_scalars(value: Any) -> bool:
    """Whether a list holds single values, of which some may be known and others not."""
    return isinstance(value, (list, tuple)) and any(is_scalar(one) for one in value[:1])


def _of_scalars(provenance: Provenance, call: Call) -> Provenance:
    return through(union(inferred(provenance), statement_provenance(call)), TRANSFORMATION)


def _scalar_provenance(value: Any, call: Call) -> Provenance:
    """A literal comes from nowhere; `df['x'].max() * 2` from the single values that its statement took."""
    if value is None or isinstance(value, bool):
        return {}
    within = worked_out(value, call)
    found = computed_scalar(value, call.frame, within)
    if found or any(value is constant for constant in call.frame.f_code.co_consts):
        return found
    # Something else than pandas may have reduced a column to a value.
    return statement_provenance(call, within)


def computed_scalar(value: Any, frame: FrameType, within: Span | None = None) -> Provenance:
    """What a single value that is not known itself was computed from in plain arithmetic, marked as inferred."""
    if value is None or value.__class__ is bool:
        return {}
    found = scalars_behind(value, frame, is_scalar, within)
    return through(union(*found), TRANSFORMATION | INFERRED) if found else {}


def known_here(value: Any, frame: FrameType) -> Provenance:
    """The provenance of an operand, also of one that plain arithmetic made of single values."""
    found = provenance_of(value)
    if found is not None:
        return found
    return computed_scalar(value, frame) if is_scalar(value) else {}


def brought(value: Any, call: Call) -> Provenance:
    """What an argument brings: also an array that left pandas on its way, by what was read to work it out."""
    found = known_here(value, call.frame)
    return union(found, statement_provenance(call, worked_out(value, call))) if has_left(value) else found


def has_left(value: Any) -> bool:
    """Whether a value is an array that nothing is known of, or a list that holds one."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(one, np.ndarray) and provenance_of(one) is None for one in value[:_ITEMS_COMPARED])
    return isinstance(value, np.ndarray) and provenance_of(value) is None


def worked_out(value: Any, call: Call) -> Span | None:
    """The part of the running statement that works out an argument; None if that cannot be told."""
    spans = operands_of(call.frame.f_code, call.frame.f_lasti)
    places = [place for place, one in enumerate(call.values()) if one is value]
    if not spans or not places:
        return None
    if len(spans) == len(call.values()):
        return spans[places[0]]
    return spans[-1] if call.name in SUBJECT_FIRST else (spans[0][0], spans[-1][1])


def is_literal(value: Any, call: Call) -> bool:
    """Whether a list stands in the code of the caller as it is."""
    if not isinstance(value, (list, tuple)) or len(value) > _ITEMS_COMPARED:
        return False
    return tuple(map(id, value)) in literals_of(call.frame.f_code)


def statement_provenance(call: Call, given_to: str | Span | None = None) -> Provenance:
    """Everything that the running statement read, or read to call `given_to` with it, marked as inferred.

    With a stretch of the statement, only what that read.
    """
    reads, loaded = reads_of(call.frame, given_to), names_loaded(call.frame, given_to)
    touched: set[int] = set()
    if any(isinstance(value, pd.DataFrame) for value, _ in loaded):
        here = reads_of(call.frame, given_to, here=True)
        touched = {uid for read in here for version, _ in read for uid in _origins(version)}
    named = [_named_provenance(value, times, call, touched) for value, times in loaded]
    return through(union(*reads, *named), TRANSFORMATION | INFERRED)


def _origins(version: FrameVersion) -> list[int]:
    """A version's frame, and the frames that it was taken from."""
    parents = version.made_by.parents if version.made_by is not None else ()
    return [version.uid, *[parent.uid for parent in parents]]


def _named_provenance(value: Any, times: int, call: Call, touched: set[int]) -> Provenance | None:
    if not isinstance(value, pd.DataFrame):
        return provenance_of(value)
    # The frame that is assigned to is loaded for that alone; one of which columns were read was not used whole.
    if value is call.subject and times == 1:
        return None
    version = _version_before(value, call)
    return None if version.uid in touched else version.fields()


def _version_before(frame: Any, call: Call) -> FrameVersion:
    """The version that the statement read: the call may have changed the frame since."""
    if frame is call.subject and isinstance(call.before, FrameVersion):
        return call.before
    return version_of(frame)


def labelled(labels: Any, provenance: Provenance) -> dict[Hashable, Provenance]:
    """The same provenance under several labels."""
    return dict.fromkeys(labels, provenance)


__all__ = [
    "IDENTITY",
    "Call",
    "changed",
    "failed",
    "labelled",
    "made",
    "made_or_changed",
    "record",
    "spread",
    "statement_provenance",
    "value_provenance",
]
