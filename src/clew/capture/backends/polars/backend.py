"""Patches of polars, and recording of eager and lazy operations."""

from __future__ import annotations

import functools
import inspect
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.capture.backends.base import (
    attach_version,
    describe_frame,
    is_frame,
    is_polars,
    record_operation,
    version_of_frame,
)
from clew.capture.backends.polars.expressions import series_provenance
from clew.capture.backends.polars.rules import RULES, Call, trace_unknown_method
from clew.capture.diagnostics import record_error
from clew.capture.introspection.user_code import guard
from clew.capture.lineage.datasets import dataset_at
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion
from clew.capture.lineage.operations import (
    ExplicitEdges,
    IdentityEdges,
    OperationRecord,
    OperationType,
    external_version,
    record_written,
)
from clew.capture.lineage.provenance import Provenance, SeriesLineage, apply_direct, union
from clew.capture.lineage.transformations import IDENTITY, OPAQUE, TRANSFORMATION

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType


class PendingOperation:
    """A traced call with everything needed to record it later."""

    __slots__ = ("args", "code", "duration", "instruction", "kwargs", "name", "parents", "started")

    def __init__(
        self, name: str, parents: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any], caller: FrameType
    ) -> None:
        self.name = name
        self.parents = parents
        self.args = args
        self.kwargs = kwargs
        # Not the stack frame, which would retain the caller's variables.
        self.code: CodeType = caller.f_code
        self.instruction = caller.f_lasti
        self.started = time.perf_counter()
        self.duration = 0.0

    def finish(self) -> None:
        """Set the duration; called when the method has returned."""
        self.duration = time.perf_counter() - self.started

    def location(self) -> tuple[CodeType, int, float, float]:
        """Return the code, instruction offset, start time and duration."""
        return self.code, self.instruction, self.started, self.duration

    def record(self, frame: Any) -> FrameVersion:
        """Record the operation that created `frame`, and return its version."""
        sources = tuple(version_of_frame(parent) for parent in self.parents)
        version = describe_frame(frame)
        schema = self.parents[0].collect_schema() if self.parents and is_polars(self.parents[0]) else None
        call = Call(self.name, sources, self.args, self.kwargs, list(version.columns), schema)
        lineage = RULES.get(self.name, trace_unknown_method)(call)
        operation = OperationRecord(self.name, lineage.kind, version, lineage.edges)
        operation.rows = lineage.rows
        operation.parents = sources
        record_operation(operation, "polars", *self.location())
        return attach_version(frame, version)


def resolve_version(frame: Any) -> FrameVersion | None:
    """Return the version of a polars frame; record its pending operations first."""
    state = frame.__dict__.get(STATE_ATTR)
    if not isinstance(state, PendingOperation):
        return state if isinstance(state, FrameVersion) else None
    del frame.__dict__[STATE_ATTR]
    try:
        return state.record(frame)
    except sys.modules["polars"].exceptions.PolarsError:
        # An invalid plan; polars raises the error in user code.
        return None
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        record_error(f"polars {state.name}", error)
        return None


_installed: list[tuple[Any, str, Any]] = []
# `pipe` calls a user function; the others create no frame or only display one.
_IGNORED_METHODS = frozenset(["pipe", "glimpse", "show", "explain", "inspect", "profile", "equals", "collect_schema"])
_GROUP_AGGREGATES = ("sum", "mean", "median", "min", "max", "first", "last", "n_unique", "all")
_GROUPBY_METHODS = frozenset(["group_by", "group_by_dynamic", "rolling"])
_ARITHMETIC = "add sub mul truediv floordiv mod pow and or xor".split()
_OPERATORS = frozenset(
    [f"__{side}{name}__" for name in _ARITHMETIC for side in ("", "r")]
    + ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__invert__"]
)
_SERIES_IDENTITY_METHODS = frozenset(
    "alias rename clone head tail limit slice sample sort filter gather drop_nulls unique reverse to_frame".split()
)


def install() -> None:
    """Patch polars."""
    polars = sys.modules["polars"]
    _spoof_filename(_trace_call)
    for owner in (polars.DataFrame, polars.LazyFrame):
        for name in (*_public_methods(owner), "__getitem__", "__init__"):
            _patch_method(owner, name)
    for name in (*_public_methods(polars.Series), *_OPERATORS):
        _patch_method(polars.Series, name)
    for group_class in _group_classes(polars):
        for name in ("agg", "len", "head", "tail", *_GROUP_AGGREGATES):
            _patch_method(group_class, name)
    for name in dir(polars):
        if name.startswith(("read_", "scan_")) or name in ("concat", "from_pandas"):
            _patch_function(polars, name)


def uninstall() -> None:
    """Remove all patches."""
    while _installed:
        owner, name, original = _installed.pop()
        setattr(owner, name, original)


def _group_classes(polars: Any) -> list[type]:
    frame = polars.DataFrame({"a": [1]})
    return [type(frame.group_by("a")), type(frame.lazy().group_by("a"))]


def _public_methods(owner: Any) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_") and name not in _IGNORED_METHODS]


def _patch_method(owner: Any, name: str) -> None:
    original = inspect.getattr_static(owner, name, None)
    if not inspect.isfunction(original):
        return

    @functools.wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _trace_call(_trace_method, name, original, (self, *args), kwargs, sys._getframe(1))

    _install_wrapper(owner, name, wrapper, original)


def _patch_function(module: Any, name: str) -> None:
    original = getattr(module, name)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _trace_call(_trace_function, name, original, args, kwargs, sys._getframe(1))

    _install_wrapper(module, name, wrapper, original)


def _install_wrapper(owner: Any, name: str, wrapper: Any, original: Any) -> None:
    _spoof_filename(wrapper)
    _installed.append((owner, name, original))
    setattr(owner, name, wrapper)


def _spoof_filename(function: Any) -> None:
    """Make a function appear to be defined inside polars, which attributes warnings to the first outside caller."""
    function.__code__ = _with_spoofed_filename(function.__code__)


# Cached, so that wrappers of one kind share a code object: the interpreter specializes bytecode per code object.
@functools.cache
def _with_spoofed_filename(code: CodeType) -> CodeType:
    return code.replace(co_filename=str(Path(sys.modules["polars"].__file__ or "").parent / "_clew.py"))


def _trace_call(
    rule: Callable[[PendingOperation, tuple[Any, ...], Any], None],
    name: str,
    original: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    caller: FrameType,
) -> Any:
    if guard.depth:
        return original(*args, **kwargs)
    pending = PendingOperation(name, [], args[1:], kwargs, caller)
    guard.depth = 1
    try:
        if name == "collect":
            # The lazy operations are recorded before `collect` itself.
            _run_rule(resolve_version, args[0])
        result = original(*args, **kwargs)
        pending.finish()
        _run_rule(rule, pending, args, result)
    finally:
        guard.depth = 0
    return result


def _run_rule(rule: Callable[..., Any], *args: Any) -> None:
    try:
        rule(*args)
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        record_error("polars", error)


def _trace_method(pending: PendingOperation, args: tuple[Any, ...], result: Any) -> None:
    receiver = args[0]
    if isinstance(receiver, sys.modules["polars"].Series):
        _trace_series_method(pending, receiver, result)
    elif isinstance(result, sys.modules["polars"].Series):
        _trace_get_column(pending, receiver, result)
    elif pending.name == "__init__":
        _trace_frame_init(pending, receiver, pending.args[0] if pending.args else pending.kwargs.get("data"))
    elif pending.name in _GROUPBY_METHODS:
        result.__dict__[STATE_ATTR] = (receiver, _group_keys(pending))
    elif isinstance(receiver.__dict__.get(STATE_ATTR), tuple):
        _trace_groupby(pending, receiver.__dict__[STATE_ATTR], result)
    elif pending.name.startswith(("write_", "sink_")):
        _trace_write(pending, receiver)
    elif is_polars(result):
        _record_created(pending, [receiver, *[value for value in pending.args if is_polars(value)]], result)
    elif is_frame(result):
        _trace_to_pandas(pending, receiver, result)


def _trace_get_column(pending: PendingOperation, frame: Any, series: Any) -> None:
    """Trace frame["column"], frame.get_column("column"): attach lineage to the column, record no operation."""
    version = version_of_frame(frame)
    is_column = pending.name in ("__getitem__", "get_column", "to_series") and version.has(series.name)
    provenance = version.field(series.name) if is_column else version.fields(None, TRANSFORMATION | OPAQUE)
    series.__dict__[STATE_ATTR] = SeriesLineage(provenance)


def _trace_series_method(pending: PendingOperation, series: Any, result: Any) -> None:
    """Trace a Series method: compose lineage; record an operation only if it returns a frame."""
    operands = [value for value in pending.args if isinstance(value, type(series))]
    step = IDENTITY if pending.name in _SERIES_IDENTITY_METHODS else TRANSFORMATION
    provenance = apply_direct(union(*[series_provenance(item) for item in (series, *operands)]), step)
    if isinstance(result, type(series)):
        result.__dict__[STATE_ATTR] = SeriesLineage(provenance)
    elif is_polars(result) and provenance:
        version = describe_frame(result)
        fields: dict[Any, Provenance] = dict.fromkeys(version.columns, provenance)
        record_operation(
            OperationRecord(pending.name, "selection", version, ExplicitEdges(fields)), "polars", *pending.location()
        )
        attach_version(result, version)


def _record_created(pending: PendingOperation, parents: list[Any], result: Any) -> None:
    pending.parents = parents
    if any(result is parent for parent in parents):
        # Mutated in place: its previous version is the source.
        pending.parents = [version_of_frame(parent) for parent in parents]
    result.__dict__[STATE_ATTR] = pending
    if hasattr(result, "shape"):
        resolve_version(result)


def _group_keys(pending: PendingOperation) -> list[Any]:
    arguments = [pending.kwargs["index_column"]] if "index_column" in pending.kwargs else list(pending.args)
    keys = [key for argument in arguments for key in (argument if isinstance(argument, (list, tuple)) else [argument])]
    named = [value.alias(name) for name, value in pending.kwargs.items() if hasattr(value, "alias")]
    return [*keys, *named]


def _trace_groupby(pending: PendingOperation, groups: tuple[Any, list[Any]], result: Any) -> None:
    """Trace group_by(keys).agg(expressions) and the shorthand methods."""
    receiver, keys = groups
    if pending.name in ("head", "tail"):
        pending.name, pending.args, pending.kwargs = "group_head", (keys,), {}
        _record_created(pending, [receiver], result)
        return
    polars = sys.modules["polars"]
    expressions = [
        expression
        for argument in pending.args
        for expression in (argument if isinstance(argument, (list, tuple)) else [argument])
    ]
    named = dict(pending.kwargs)
    if pending.name != "agg":
        all_columns = polars.all() if pending.name == "all" else getattr(polars.all(), pending.name, polars.all)()
        expressions, named = ([] if pending.name == "len" else [all_columns]), {}
    pending.name, pending.args, pending.kwargs = "agg", (keys, expressions, named), {}
    _record_created(pending, [receiver], result)


def _trace_frame_init(pending: PendingOperation, frame: Any, data: Any) -> None:
    """Trace pl.DataFrame(data)."""
    pending.name = type(frame).__name__
    if isinstance(data, dict):
        version = describe_frame(frame)
        series = {label: value for label, value in data.items() if hasattr(value, "to_frame")}
        fields: dict[Any, Provenance] = {label: series_provenance(value) for label, value in series.items()}
        record_operation(
            OperationRecord(pending.name, "creation", version, ExplicitEdges(fields)), "polars", *pending.location()
        )
        attach_version(frame, version)
    else:
        _record_copy(pending, "creation", frame, version_of_frame(data) if is_frame(data) else None)


def _trace_to_pandas(pending: PendingOperation, receiver: Any, result: Any) -> None:
    """Trace frame.to_pandas()."""
    _record_copy(pending, "selection", result, version_of_frame(receiver))


def _record_copy(pending: PendingOperation, kind: OperationType, frame: Any, source: FrameVersion | None) -> None:
    version = describe_frame(frame)
    operation = OperationRecord(
        pending.name, kind, version, IdentityEdges(source, IDENTITY) if source is not None else ExplicitEdges({})
    )
    operation.parents = (source,) if source is not None else ()
    record_operation(operation, "polars", *pending.location())
    attach_version(frame, version)


def _trace_function(pending: PendingOperation, args: tuple[Any, ...], result: Any) -> None:
    if not is_polars(result):
        return
    argument = args[0] if args else next(iter(pending.kwargs.values()), None)
    if pending.name == "concat":
        _record_created(pending, list(argument or ()), result)
    elif pending.name == "from_pandas":
        _record_copy(pending, "selection", result, version_of_frame(argument) if is_frame(argument) else None)
    else:
        _trace_read(pending, argument, result)


def _trace_read(pending: PendingOperation, target: Any, result: Any) -> None:
    """Trace pl.read_*, pl.scan_*: every column comes from the file's column of the same name."""
    datasets = [dataset_at(path) for path in (target if isinstance(target, (list, tuple)) else [target])]
    sources = [external_version(dataset) for dataset in datasets if dataset is not None]
    version = describe_frame(result)
    fields: dict[Any, Provenance] = {
        label: union(*[{(source, label): IDENTITY} for source in sources]) for label in version.columns
    }
    operation = OperationRecord(pending.name, "io", version, ExplicitEdges(fields))
    operation.read_from = sources[0] if sources else None
    record_operation(operation, "polars", *pending.location())
    attach_version(result, version)


def _trace_write(pending: PendingOperation, receiver: Any) -> None:
    """Trace frame.write_*, frame.sink_*: the file has the columns of the frame."""
    target = pending.args[0] if pending.args else next(iter(pending.kwargs.values()), None)
    dataset = dataset_at(target)
    if dataset is None:
        return
    version = version_of_frame(receiver)
    written = external_version(dataset)
    written.columns = list(version.columns)
    written.shape = version.shape
    operation = OperationRecord(pending.name, "io", written, IdentityEdges(version))
    operation.parents = (version,)
    record_operation(operation, "polars", *pending.location())
    record_written(written)
