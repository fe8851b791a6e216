"""Patches of polars, and recording of eager and lazy operations."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar, NamedTuple

from clew.capture.backends.base import (
    Backend,
    Call,
    Location,
    Patcher,
    Tracing,
    is_frame,
    public_methods,
    record_operation,
    version_of_frame,
)
from clew.capture.backends.polars.expressions import series_provenance
from clew.capture.backends.polars.rules import RULES, MethodCall, flatten, trace_unknown_method
from clew.capture.diagnostics import record_error
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion
from clew.capture.lineage.operations import (
    ExplicitEdges,
    OperationRecord,
)
from clew.capture.lineage.provenance import SeriesLineage, apply_direct, union
from clew.capture.lineage.transformations import IDENTITY, OPAQUE, TRANSFORMATION

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


class PolarsBackend(Backend):
    """Capture of polars. Lazy operations are recorded when their frame is collected or queried."""

    name: ClassVar[str] = "polars"

    def __init__(self) -> None:
        self._patches = Patcher(self.name)

    def install(self) -> None:
        """Patch frames, Series, groups, readers and `concat`."""
        polars, patches = self.module, self._patches
        for owner in (polars.DataFrame, polars.LazyFrame):
            for name in (*public_methods(owner, _IGNORED_METHODS), "__getitem__", "__init__"):
                prepare = _resolve_plan if name == "collect" else None
                patches.method(owner, name, Tracing(_trace_method, prepare=prepare))
        for name in (*public_methods(polars.Series, _IGNORED_METHODS), *_OPERATORS):
            if hasattr(polars.Series, name):
                patches.method(polars.Series, name, Tracing(_trace_series_method))
        frame = polars.DataFrame({"a": [1]})
        for owner in (type(frame.group_by("a")), type(frame.lazy().group_by("a"))):
            for name in ("agg", "len", "head", "tail", *_GROUP_AGGREGATES):
                if hasattr(owner, name):
                    patches.method(owner, name, Tracing(_trace_groupby))
        for name in dir(polars):
            if name.startswith(("read_", "scan_")) or name in ("concat", "from_pandas"):
                patches.function(polars, name, Tracing(_trace_function))

    def uninstall(self) -> None:
        """Remove all patches."""
        self._patches.remove()

    @property
    def frame_types(self) -> tuple[type, ...]:
        """Eager and lazy frames."""
        return self.module.DataFrame, self.module.LazyFrame

    @property
    def data_types(self) -> tuple[type, ...]:
        """Eager frames."""
        return (self.module.DataFrame,)

    def snapshot(self, frame: Any) -> FrameVersion:
        """Create a version of a frame; the schema of a lazy frame is resolved."""
        schema = frame.collect_schema()
        version = FrameVersion(columns=list(schema.names()), object_id=id(frame), engine=self.name)
        version.blocks = [item for position, kind in enumerate(schema.dtypes()) for item in (kind, (position,))]
        if hasattr(frame, "shape"):
            version.shape, version.nbytes = frame.shape, frame.estimated_size()
        return version

    def attached_version(self, frame: Any) -> FrameVersion | None:
        """Return the version of a frame; record its pending operations first."""
        state = frame.__dict__.get(STATE_ATTR)
        if not isinstance(state, PendingOperation):
            return super().attached_version(frame)
        del frame.__dict__[STATE_ATTR]
        try:
            return state.record(frame)
        except self.module.exceptions.PolarsError:
            # An invalid plan; polars raises the error in user code.
            return None
        except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
            record_error(f"polars {state.name}", error)
            return None

    def column_metrics(self, frame: Any, position: int, step: int, *, include_bounds: bool) -> dict[str, Any]:
        """Return the metrics of a column."""
        series = frame.to_series(position)
        nulls = series.null_count()
        metrics: dict[str, Any] = {"nullCount": nulls}
        # n_unique is not supported for some nested types.
        with contextlib.suppress(self.module.exceptions.PolarsError):
            sample = (series.gather_every(step) if step > 1 else series).drop_nulls()
            metrics["distinctCount"] = sample.n_unique()
        if series.dtype.is_numeric() and len(series) > nulls and include_bounds:
            metrics |= {"min": series.min(), "max": series.max()}
        return metrics


BACKEND = PolarsBackend()


class PendingOperation(NamedTuple):
    """A traced call with everything needed to record it later."""

    name: str
    # Frames, or versions of frames that were mutated in place.
    parents: list[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    location: Location

    def record(self, frame: Any) -> FrameVersion:
        """Record the operation that created `frame`, and return its version."""
        sources = tuple(version_of_frame(parent) for parent in self.parents)
        version = BACKEND.snapshot(frame)
        is_known = bool(self.parents) and isinstance(self.parents[0], BACKEND.frame_types)
        schema = self.parents[0].collect_schema() if is_known else None
        call = MethodCall(self.name, sources, self.args, self.kwargs, list(version.columns), schema)
        kind, edges, rows = RULES.get(self.name, trace_unknown_method)(call)
        record_operation(
            OperationRecord(self.name, kind, version, edges, rows, sources), BACKEND.name, self.location, frame
        )
        return version


def _resolve_plan(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Record the lazy operations of a plan before `collect` itself."""
    BACKEND.attached_version(call.receiver)
    return call.args, call.kwargs


def _trace_method(call: Call) -> None:
    receiver, result = call.receiver, call.result
    if isinstance(result, BACKEND.module.Series):
        _trace_get_column(call)
    elif call.name == "__init__":
        _trace_frame_init(call)
    elif call.name in _GROUPBY_METHODS:
        result.__dict__[STATE_ATTR] = (receiver, _group_keys(call))
    elif call.name.startswith(("write_", "sink_")):
        BACKEND.record_write(call)
    elif isinstance(result, BACKEND.frame_types):
        _record_created(call, [receiver, *[value for value in call.args if isinstance(value, BACKEND.frame_types)]])
    elif is_frame(result):
        call.kind = "selection"
        BACKEND.record_copy(call, version_of_frame(receiver), result)


def _trace_get_column(call: Call) -> None:
    """Trace frame["column"], frame.get_column("column"): attach lineage to the column, record no operation."""
    version, series = version_of_frame(call.receiver), call.result
    is_column = call.name in ("__getitem__", "get_column", "to_series") and version.has(series.name)
    provenance = version.field(series.name) if is_column else version.fields(None, TRANSFORMATION | OPAQUE)
    series.__dict__[STATE_ATTR] = SeriesLineage(provenance)


def _trace_series_method(call: Call) -> None:
    """Trace a Series method: compose lineage; record an operation only if it returns a frame."""
    series, result = call.receiver, call.result
    operands = [value for value in call.args if isinstance(value, type(series))]
    step = IDENTITY if call.name in _SERIES_IDENTITY_METHODS else TRANSFORMATION
    provenance = apply_direct(union(*[series_provenance(item) for item in (series, *operands)]), step)
    if isinstance(result, type(series)):
        result.__dict__[STATE_ATTR] = SeriesLineage(provenance)
    elif isinstance(result, BACKEND.frame_types) and provenance:
        version = BACKEND.snapshot(result)
        edges = ExplicitEdges(dict.fromkeys(version.columns, provenance))
        BACKEND.record(call, OperationRecord(call.name, "selection", version, edges), result)


def _record_created(
    call: Call,
    parents: list[Any],
    name: str | None = None,
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
) -> None:
    """Record an operation that created a frame: an eager one now, a lazy one when it is needed."""
    result = call.result
    if any(result is parent for parent in parents):
        # Mutated in place: its previous version is the source.
        parents = [version_of_frame(parent) for parent in parents]
    result.__dict__[STATE_ATTR] = PendingOperation(
        name or call.name,
        parents,
        call.args if args is None else args,
        call.kwargs if kwargs is None else kwargs,
        call.location(),
    )
    if isinstance(result, BACKEND.data_types):
        BACKEND.attached_version(result)


def _group_keys(call: Call) -> list[Any]:
    arguments = [call.kwargs["index_column"]] if "index_column" in call.kwargs else call.args
    named = [value.alias(name) for name, value in call.kwargs.items() if hasattr(value, "alias")]
    return [*flatten(arguments), *named]


def _trace_groupby(call: Call) -> None:
    """Trace group_by(keys).agg(expressions) and the shorthand methods."""
    state = call.receiver.__dict__.get(STATE_ATTR)
    if not isinstance(state, tuple):
        return
    frame, keys = state
    if call.name in ("head", "tail"):
        _record_created(call, [frame], "group_head", (keys,), {})
        return
    expressions, named = flatten(call.args), call.kwargs
    if call.name != "agg":
        columns = BACKEND.module.all()
        aggregate = columns if call.name == "all" else getattr(columns, call.name)()
        expressions, named = ([] if call.name == "len" else [aggregate]), {}
    _record_created(call, [frame], "agg", (keys, expressions, named), {})


def _trace_frame_init(call: Call) -> None:
    """Trace pl.DataFrame(data)."""
    frame, data = call.receiver, call.argument(0, "data")
    call.name = type(frame).__name__
    if isinstance(data, dict):
        series = {label: value for label, value in data.items() if hasattr(value, "to_frame")}
        edges = ExplicitEdges({label: series_provenance(value) for label, value in series.items()})
        BACKEND.record(call, OperationRecord(call.name, "creation", BACKEND.snapshot(frame), edges), frame)
    else:
        call.kind = "creation"
        BACKEND.record_copy(call, version_of_frame(data) if is_frame(data) else None, frame)


def _trace_function(call: Call) -> None:
    if not isinstance(call.result, BACKEND.frame_types):
        return
    argument = call.first_argument()
    if call.name == "concat":
        _record_created(call, list(argument or ()))
    elif call.name == "from_pandas":
        call.kind = "selection"
        BACKEND.record_copy(call, version_of_frame(argument) if is_frame(argument) else None, call.result)
    else:
        BACKEND.record_read(call)
