"""A traced pandas call, its operands, and recording of its result."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray
from pandas.core.common import pipe
from pandas.core.generic import NDFrame

from clew.capture.backends.base import Call, Rule, enqueue
from clew.capture.backends.pandas.state import current_version, is_scalar, mark_inferred, provenance_of, snapshot_frame
from clew.capture.introspection.bytecode import WHOLE_CODE, constant_ids_within, is_result_kept, operand_spans
from clew.capture.introspection.read_tracking import (
    extracted_scalar,
    is_literal,
    loaded_values,
    reads_in_statement,
    record_scalar,
    scalar_sources,
)
from clew.capture.introspection.user_code import guard
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion, column_labels, set_state
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges, OperationRecord, fold_iteration
from clew.capture.lineage.provenance import (
    Provenance,
    SeriesLineage,
    apply_direct,
    attach_to_array,
    attach_to_scalar,
    attach_to_series,
    union,
)
from clew.capture.lineage.transformations import DIRECT, INFERRED, TRANSFORMATION

if TYPE_CHECKING:
    from collections.abc import Hashable
    from types import FrameType

    from clew.capture.introspection.bytecode import Span


_ARITHMETIC = "add sub mul truediv floordiv mod pow and or xor".split()
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_UNARY = ("__neg__", "__pos__", "__abs__", "__invert__", "__round__")
OPERATORS = (
    *[f"__{name}__" for name in _ARITHMETIC],
    *[f"__r{name}__" for name in _ARITHMETIC],
    *[f"__i{name}__" for name in _ARITHMETIC],
    *_COMPARISONS,
    *_UNARY,
)
# The receiver is the left operand; comparisons are not listed since they may be reflected.
RECEIVER_FIRST = frozenset(f"__{prefix}{name}__" for name in _ARITHMETIC for prefix in ("", "i"))
ARITHMETIC_METHODS = (
    "add radd sub rsub subtract mul rmul multiply div rdiv divide truediv rtruediv floordiv rfloordiv mod rmod "
    "pow rpow eq ne lt le gt ge"
).split()


_clock = time.perf_counter
# Scalars that pandas returns; those of NumPy besides.
_VALUE_TYPES = frozenset([int, float, str, bool, complex, pd.Timestamp, pd.Timedelta, pd.Period, pd.Interval])
_PIPE_CODE = pipe.__code__
_FRAME_PIPE_CODE = NDFrame.pipe.__code__
_MAX_ITEMS_COMPARED = 64


def record_created(
    call: Call,
    edges: IdentityEdges | ExplicitEdges,
    rows: Provenance | None = None,
    parents: tuple[FrameVersion, ...] = (),
    frame: Any = None,
    method: str | None = None,
) -> OperationRecord:
    """Record that the call created a frame: its result, or `frame`."""
    frame = call.result if frame is None else frame
    version = snapshot_frame(frame)
    set_state(frame, version)
    # Only the first frame owns the index; later frames share it.
    index = frame._mgr.axes[1]
    if getattr(index, STATE_ATTR) is None:
        set_state(index, version)
    return record_output(call, version, edges, rows, parents, method)


def record_mutated(
    call: Call,
    edges: IdentityEdges | ExplicitEdges,
    rows: Provenance | None = None,
    frame: Any = None,
    previous: FrameVersion | None = None,
    method: str | None = None,
) -> OperationRecord:
    """Record that the call mutated its receiver, or `frame`, in place."""
    frame = call.receiver if frame is None else frame
    previous = call.pre_state if previous is None else previous
    version = snapshot_frame(frame, uid=previous.uid)
    version.name = previous.name
    set_state(frame, version)
    return record_output(call, version, edges, rows, (previous,), method)


def record_result(call: Call, edges: IdentityEdges | ExplicitEdges, rows: Provenance | None = None) -> None:
    """Record a method that has an `inplace` parameter."""
    if call.is_in_place:
        record_mutated(call, edges, rows)
    elif isinstance(call.result, pd.DataFrame):
        record_created(call, edges, rows, (call.pre_state,))


def record_output(
    call: Call,
    version: FrameVersion,
    edges: IdentityEdges | ExplicitEdges,
    rows: Provenance | None,
    parents: tuple[FrameVersion, ...],
    method: str | None = None,
) -> OperationRecord:
    """Record an operation with the output `version`."""
    caller, started, ended = call.caller, call.started, call.ended
    if caller.f_code is _PIPE_CODE and caller.f_back is not None and caller.f_back.f_back is not None:
        # `df.pipe(pd.merge, other)` calls pandas from two functions of pandas.
        caller = caller.f_back.f_back
    if caller.f_code is _FRAME_PIPE_CODE and caller.f_back is not None:
        # `df.pipe(function)` passes a copy since pandas 3.
        caller, method = caller.f_back, "pipe"
    if not started:
        # An untimed call: use its end as the timestamp, with a duration of 0.
        started = ended = ended or _clock()
    operation = OperationRecord(
        method or call.name,
        call.kind,
        version,
        edges,
        rows or {},
        parents,
        call.is_module_function,
        caller.f_code,
        caller.f_lasti,
        started,
        ended - started,
    )
    previous = parents[0].made_by if len(parents) == 1 else None
    is_loop_iteration = (
        previous is not None and previous.instruction == operation.instruction and previous.code is operation.code
    )
    version.made_by = fold_iteration(operation) if is_loop_iteration else operation
    enqueue(operation, ended)
    return operation


def record_value(call: Call) -> None:
    """Record a call whose result is a Series or a scalar, if user code assigns, returns or displays it.

    Later uses of the result refer to the version that is created here.
    """
    result, caller = call.result, call.caller
    is_series = isinstance(result, pd.Series)
    if not is_series and not (result.__class__ in _VALUE_TYPES or isinstance(result, np.generic)):
        return
    if guard.is_callback or not is_result_kept(caller.f_code, caller.f_lasti):
        return
    lineage = getattr(result, STATE_ATTR, None) if is_series else SeriesLineage(extracted_scalar(caller))
    if lineage is None or lineage.version is not None:
        return
    if call.kind != "creation" and not (lineage.provenance or lineage.index or lineage.rows):
        return
    fields = _value_fields(result, lineage.provenance, is_series=is_series)
    version = FrameVersion(columns=list(fields), index_names=tuple(lineage.index or ()), object_id=id(result))
    if is_series:
        version.shape = (len(result), 1) if len(fields) == 1 else (1, len(fields))
        version.blocks = [result.dtype, range(len(fields))]
    else:
        version.shape = (1, 1)
    own = {label: version.field(label) for label in version.labels()}
    prefix = getattr(getattr(call.receiver, STATE_ATTR, None), "prefix", None)
    method = f"{prefix}.{call.name}" if prefix is not None else None
    edges = ExplicitEdges({**(lineage.index or {}), **fields})
    record_output(call, version, edges, lineage.rows, single_parent(lineage), method)
    provenance = union(*[own[label] for label in fields])
    if is_series:
        levels = {name: own[name] for name in lineage.index} if lineage.index else None
        set_state(result, SeriesLineage(provenance, levels, None, version))
    else:
        record_extracted_scalar(caller, result, provenance)


def _value_fields(result: Any, provenance: Provenance, *, is_series: bool) -> dict[Hashable, Provenance]:
    """Return the provenance of a Series as one column, or as one per entry for `df.sum()` or a row of a frame."""
    sources = {label: {(source, label): flags} for (source, label), flags in provenance.items()}
    if is_series and 0 < len(result) == len(sources) == len(provenance):
        entries = column_labels(result.index)
        if all(label in sources for label in entries):
            return {label: sources[label] for label in entries}
    if is_series:
        return {0 if result.name is None else result.name: provenance}
    direct = {label for (_, label), flags in provenance.items() if flags & DIRECT}
    return {direct.pop() if len(direct) == 1 else 0: provenance}


def single_parent(lineage: SeriesLineage) -> tuple[FrameVersion, ...]:
    """Return the only frame that a Series comes from; empty if there are several."""
    versions = {
        version for provenance in (lineage.provenance, *(lineage.index or {}).values()) for version, _ in provenance
    }
    return tuple(versions) if len(versions) == 1 else ()


def module_function_rule(rule: Rule, parameter: str) -> Rule:
    """Build a rule for a function of the module from the rule of a method; its first argument is the receiver."""

    def function_rule(call: Call) -> None:
        if parameter in call.kwargs:
            receiver = call.kwargs[parameter]
            call.kwargs = {key: value for key, value in call.kwargs.items() if key != parameter}
        else:
            receiver, *rest = call.args
            call.args = tuple(rest)
        call.receiver = receiver
        call.pre_state = current_version(receiver) if isinstance(receiver, pd.DataFrame) else None
        rule(call)

    return function_rule


def assign_to_result(call: Call, provenance: Provenance) -> None:
    """Attach one provenance to the result of a call, whatever its type."""
    result = call.result
    if isinstance(result, pd.Series):
        attach_to_series(result, provenance)
    elif isinstance(result, pd.DataFrame):
        labels = [*result.columns, *[name for name in result.index.names if name is not None]]
        record_created(call, ExplicitEdges(dict.fromkeys(labels, provenance)))
    elif isinstance(result, (np.ndarray, ExtensionArray)):
        attach_to_array(result, provenance)
    elif isinstance(result, pd.Index):
        attach_to_series(result, provenance, {result.name: provenance} if result.name is not None else None)
    elif is_scalar(result):
        record_extracted_scalar(call.caller, result, provenance)


def record_extracted_scalar(caller: FrameType, value: Any, provenance: Provenance) -> None:
    """Attach provenance to a scalar extracted from a Series or a frame, and log the read."""
    if provenance:
        attach_to_scalar(value, provenance)
        record_scalar(caller, provenance)


def value_provenance(value: Any, call: Call) -> Provenance:
    """Return the provenance of a value stored in a frame; inferred from the statement if the value left pandas."""
    provenance = provenance_of(value)
    if provenance is not None:
        return (
            provenance
            if value.__class__ is pd.Series or not _has_scalars(value)
            else _scalar_list_provenance(provenance, call)
        )
    if is_scalar(value):
        return _infer_scalar_argument(value, call)
    if isinstance(value, pd.Index) or is_code_literal(value, call):
        return {}
    return infer_from_statement(call, argument_span(value, call))


def _has_scalars(value: Any) -> bool:
    """Return whether a list holds scalars, some of which may have no provenance."""
    return isinstance(value, (list, tuple)) and any(is_scalar(item) for item in value[:1])


def _scalar_list_provenance(provenance: Provenance, call: Call) -> Provenance:
    return apply_direct(union(mark_inferred(provenance), infer_from_statement(call)), TRANSFORMATION)


def _infer_scalar_argument(value: Any, call: Call) -> Provenance:
    """Infer a scalar: a literal has no source, `df['x'].max() * 2` has the scalars that its statement extracted."""
    if value is None or isinstance(value, bool):
        return {}
    span = argument_span(value, call)
    provenance = infer_scalar(value, call.caller, span)
    if provenance or id(value) in constant_ids_within(call.caller.f_code, span or WHOLE_CODE):
        return provenance
    # Another library may have reduced a column to a scalar.
    return infer_from_statement(call, span)


def infer_scalar(value: Any, caller: FrameType, span: Span | None = None) -> Provenance:
    """Infer the sources of a scalar that was computed with plain Python arithmetic."""
    if value is None or value.__class__ is bool:
        return {}
    sources = scalar_sources(value, caller, is_scalar, span)
    return apply_direct(union(*sources), TRANSFORMATION | INFERRED) if sources else {}


def operand_provenance(value: Any, caller: FrameType) -> Provenance:
    """Return the provenance of an operand; inferred for scalars that plain Python arithmetic computed."""
    provenance = provenance_of(value)
    if provenance is not None:
        return provenance
    return infer_scalar(value, caller) if is_scalar(value) else {}


def argument_provenance(value: Any, call: Call) -> Provenance:
    """Return the provenance of an argument; inferred from the statement for untracked arrays."""
    provenance = operand_provenance(value, call.caller)
    return (
        union(provenance, infer_from_statement(call, argument_span(value, call)))
        if is_untracked_array(value)
        else provenance
    )


def is_untracked_array(value: Any) -> bool:
    """Return whether a value is an array of unknown provenance, or a list that contains one."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, np.ndarray) and provenance_of(item) is None for item in value[:_MAX_ITEMS_COMPARED])
    return isinstance(value, np.ndarray) and provenance_of(value) is None


def argument_span(value: Any, call: Call) -> Span | None:
    """Return the bytecode span that computes an argument; None if it cannot be determined."""
    spans = operand_spans(call.caller.f_code, call.caller.f_lasti)
    positions = [position for position, argument in enumerate(call.values()) if argument is value]
    if not spans or not positions:
        return None
    if len(spans) == len(call.values()):
        return spans[positions[0]]
    return spans[-1] if call.name in RECEIVER_FIRST else (spans[0][0], spans[-1][1])


def is_code_literal(value: Any, call: Call) -> bool:
    """Return whether a list is a literal in the caller's code."""
    if not isinstance(value, (list, tuple)) or len(value) > _MAX_ITEMS_COMPARED:
        return False
    return is_literal(value, call.values(), call.caller)


def infer_from_statement(call: Call, scope: str | Span | None = None) -> Provenance:
    """Infer provenance from everything that the current statement read.

    `scope` limits this to the arguments of the named call, or to a bytecode span.
    """
    reads, loaded = reads_in_statement(call.caller, scope), loaded_values(call.caller, scope)
    read_uids: set[int] = set()
    if any(isinstance(value, pd.DataFrame) for value, _ in loaded):
        current_reads = reads_in_statement(call.caller, scope, current_only=True)
        read_uids = {uid for read in current_reads for version, _ in read for uid in _frame_uids(version)}
    variables = [_loaded_provenance(value, load_count, call, read_uids) for value, load_count in loaded]
    return apply_direct(union(*reads, *variables), TRANSFORMATION | INFERRED)


def _frame_uids(version: FrameVersion) -> list[int]:
    """Return the uid of a version's frame and those of its parents."""
    parents = version.made_by.parents if version.made_by is not None else ()
    return [version.uid, *[parent.uid for parent in parents]]


def _loaded_provenance(value: Any, load_count: int, call: Call, read_uids: set[int]) -> Provenance | None:
    if not isinstance(value, pd.DataFrame):
        return provenance_of(value)
    # The assignment target is loaded once only to be assigned to; a frame with column reads was not used as a whole.
    if value is call.receiver and load_count == 1:
        return None
    version = _version_before_call(value, call)
    return None if version.uid in read_uids else version.fields()


def _version_before_call(frame: Any, call: Call) -> FrameVersion:
    """Return the version that the statement read; the call may have mutated the frame since."""
    if frame is call.receiver and isinstance(call.pre_state, FrameVersion):
        return call.pre_state
    return current_version(frame)
