"""Patches of polars, and recording of eager and lazy operations."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import sys
from collections import ChainMap
from types import GeneratorType
from typing import Any, ClassVar, NamedTuple

from msgspec import structs

from clew.capture.backends.base import (
    Backend,
    Call,
    Location,
    Patcher,
    Tracing,
    is_frame,
    public_methods,
    record_operation,
    statement_provenance,
    version_of_frame,
)
from clew.capture.backends.polars.expressions import (
    literal_values,
    merged_provenance,
    remember_structs,
    series_provenance,
    uses_struct_field,
)
from clew.capture.backends.polars.rules import RULES, MethodCall, as_list, flatten, trace_unknown_method
from clew.capture.backends.sql_lineage import connection_database
from clew.capture.backends.sql_query import QueryRecord, StatementRecorder
from clew.capture.diagnostics import record_error
from clew.capture.emit.column_metrics import SAMPLE_ROWS, ValueSample, distinct_metrics
from clew.capture.introspection.read_tracking import has_reads, is_literal, record_read, record_scalar, scalar_sources
from clew.capture.introspection.user_code import guard, read_locals
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion
from clew.capture.lineage.operations import (
    ExplicitEdges,
    IdentityEdges,
    OperationRecord,
    read_record,
)
from clew.capture.lineage.provenance import (
    Provenance,
    SeriesLineage,
    apply_direct,
    array_provenance,
    array_version,
    as_indirect,
    attach_to_array,
    attach_to_scalar,
    scalar_with_value,
    union,
    zip_by_position,
)
from clew.capture.lineage.transformations import AGGREGATION, FILTER, IDENTITY, INFERRED, OPAQUE, TRANSFORMATION

# `pipe` calls a user function; the others create no frame or only display one.
_IGNORED_METHODS = frozenset(["pipe", "glimpse", "show", "explain", "inspect", "profile", "equals", "collect_schema"])
# Return Python values, arrays or Arrow data.
_COLUMN_METHODS = frozenset(["__getitem__", "get_column", "get_columns", "to_series"])
_FUNCTIONS = frozenset(["align_frames", "concat", "sql", "collect_all", "json_normalize"])
_FUNCTIONS_OF_FRAMES = frozenset(["align_frames", "collect_all"])
_ROW_CONDITIONS = frozenset(["filter", "remove", "__getitem__"])
_EXPRESSION_METHODS = frozenset(
    "with_columns with_columns_seq select select_seq filter remove sort group_by unique drop_nulls".split()
)
_COMPUTING_METHODS = frozenset(["with_columns", "with_columns_seq", "select", "select_seq", "agg"])
_LEAVING_METHODS = frozenset(
    "rows row iter_rows rows_by_key item to_dict to_dicts to_numpy to_arrow to_torch to_jax iter_slices".split()
)
_GROUP_AGGREGATES = ("sum", "mean", "median", "min", "max", "first", "last", "n_unique", "all")
_GROUPBY_METHODS = frozenset(["group_by", "group_by_dynamic", "rolling"])
_ARITHMETIC = "add sub mul truediv floordiv mod pow and or xor".split()
_OPERATORS = frozenset(
    [f"__{side}{name}__" for name in _ARITHMETIC for side in ("", "r")]
    + ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__invert__", "__getitem__"]
)
_SERIES_IDENTITY_METHODS = frozenset(
    "alias rename clone head tail limit slice sample sort filter gather drop_nulls unique reverse to_frame "
    "__getitem__".split()
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
            for name in (*public_methods(owner, _IGNORED_METHODS), "__init__"):
                prepare = _keep_generators if name in _EXPRESSION_METHODS else None
                patches.method(owner, name, Tracing(_trace_method, prepare=prepare))
            patches.method(owner, "__getitem__", Tracing(_trace_getitem))
        self._patch_series()
        self._patch_groups()
        for name in dir(polars):
            if name.startswith(("read_", "scan_", "from_")) or name in _FUNCTIONS:
                rule = _trace_function_of_frames if name in _FUNCTIONS_OF_FRAMES else _trace_function
                patches.function(polars, name, Tracing(rule, prepare=_keep_frames if name in _FUNCTIONS else None))
        for name in ("__init__", "register", "register_many", "register_globals", "execute"):
            patches.method(polars.SQLContext, name, Tracing(_trace_context))

    def _patch_series(self) -> None:
        series, patches = self.module.Series, self._patches
        for name in (*public_methods(series, _IGNORED_METHODS), *_OPERATORS):
            if hasattr(series, name):
                patches.method(series, name, Tracing(_trace_series_method))
        patches.method(series, "__init__", Tracing(_trace_series_init))
        patches.method(series, "__array_ufunc__", Tracing(_trace_array_function))
        for owner in _series_namespaces():
            patches.method(owner, "__init__", Tracing(_trace_namespace_init))
            for name in (*public_methods(owner, frozenset()), "__getitem__"):
                if hasattr(owner, name):
                    patches.method(owner, name, Tracing(_trace_namespace_method))

    def _patch_groups(self) -> None:
        patches = self._patches
        groups = sys.modules["polars.dataframe.group_by"]
        owners = [value for name, value in vars(groups).items() if name.endswith("GroupBy") and isinstance(value, type)]
        for owner in (*owners, sys.modules["polars.lazyframe.group_by"].LazyGroupBy):
            for name in ("agg", "len", "head", "tail", "map_groups", "__iter__", *_GROUP_AGGREGATES):
                if name in vars(owner):
                    patches.method(owner, name, Tracing(_trace_groupby, prepare=_keep_generators))
        for owner in [value for name, value in vars(groups).items() if name.endswith("GroupByIter")]:
            patches.method(owner, "__next__", Tracing(_trace_next_group))

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

    def column_metrics(self, frame: Any, position: int, seconds: float, *, include_bounds: bool) -> dict[str, Any]:
        """Return the metrics of a column."""
        series = frame.to_series(position)
        nulls = series.null_count()
        metrics: dict[str, Any] = {"nullCount": nulls}

        def draw() -> ValueSample:
            sample = series.sample(SAMPLE_ROWS, seed=0).drop_nulls()
            counts = sample.unique_counts()
            return ValueSample(len(sample), len(counts), (counts == 1).sum())

        # n_unique is not supported for some nested types.
        with contextlib.suppress(self.module.exceptions.PolarsError):
            rows = len(series) - nulls
            metrics |= distinct_metrics(rows, seconds, lambda: series.drop_nulls().n_unique(), draw)
        if series.dtype.is_numeric() and len(series) > nulls and include_bounds:
            metrics |= {"min": series.min(), "max": series.max()}
        return metrics

    def memory_bytes(self, frame: Any) -> tuple[int, bool]:
        """Return the memory of a frame."""
        return frame.estimated_size(), True


BACKEND = PolarsBackend()


class PendingOperation(NamedTuple):
    """A traced call with everything needed to record it later."""

    name: str
    # Frames, or versions of frames that were mutated in place.
    parents: list[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    location: Location
    # Sources of the scalars in its expressions.
    scalars: Provenance

    def record(self, frame: Any) -> FrameVersion:
        """Record the operation that created `frame`, and return its version."""
        sources = tuple(version_of_frame(parent) for parent in self.parents)
        version = BACKEND.snapshot(frame)
        if self.name.startswith("scan_"):
            paths = as_list(self.args[0])
            record_operation(read_record(self.name, paths, version), BACKEND.name, self.location, frame)
            return version
        is_known = bool(self.parents) and isinstance(self.parents[0], BACKEND.frame_types)
        schema = self.parents[0].collect_schema() if is_known else None
        call = MethodCall(self.name, sources, self.args, self.kwargs, list(version.columns), schema, {})
        kind, edges, rows = RULES.get(self.name, trace_unknown_method)(call)
        if self.scalars and self.name in _ROW_CONDITIONS:
            rows = union(rows, as_indirect(self.scalars, FILTER))
        elif self.scalars:
            edges = _add_scalars(edges, self.scalars)
        remember_structs(version, call.structs)
        record_operation(
            OperationRecord(self.name, kind, version, edges, rows, sources), BACKEND.name, self.location, frame
        )
        return version


def _keep_generators(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Keep the items of generators among the arguments while polars consumes them: `select(f(name) for name in names)`.

    The replacement has a built-in type, so that no frame of clew is in the traceback of an error in a generator.
    """
    passed = call.args
    if any(isinstance(value, GeneratorType) for value in passed):
        call.args = tuple([] if isinstance(value, GeneratorType) else value for value in passed)
        passed = tuple(
            map(functools.partial(_keep, items), value) if isinstance(value, GeneratorType) else value
            for items, value in zip(call.args, passed, strict=True)
        )
    return passed, call.kwargs


def _keep_frames(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Keep the frames of an iterator while polars consumes it: `pl.concat(f(name) for name in names)`."""
    frames = call.first_argument()
    if not hasattr(frames, "__next__"):
        return call.args, call.kwargs
    call.pre_state = []
    # The frames are created by user code, which is traced until the iterator is exhausted.
    guard.depth = 0
    kept = itertools.chain(map(functools.partial(_keep, call.pre_state), frames), iter(_resume_guard, None))
    args = tuple(kept if value is frames else value for value in call.args)
    return args, {name: kept if value is frames else value for name, value in call.kwargs.items()}


def _resume_guard() -> None:
    guard.depth = 1


def _keep(items: list[Any], item: Any) -> Any:
    items.append(item)
    return item


def _trace_method(call: Call) -> None:
    receiver, result = call.receiver, call.result
    if call.name in _LEAVING_METHODS:
        _trace_leaving(call)
    elif call.name == "sql":
        _record_sql(call, {str(call.kwargs.get("table_name", "self")): receiver})
    elif isinstance(result, BACKEND.module.Series):
        _trace_get_column(call)
    elif call.name == "__init__":
        _trace_frame_init(call)
    elif call.name in _GROUPBY_METHODS:
        result.__dict__[STATE_ATTR] = (receiver, _group_keys(call))
    elif call.name.startswith(("write_", "sink_")):
        BACKEND.record_write(call)
    elif isinstance(result, (list, dict)):
        _trace_parts(call)
    elif isinstance(result, BACKEND.frame_types):
        _record_created(call, [receiver, *[value for value in call.args if isinstance(value, BACKEND.frame_types)]])
    elif is_frame(result):
        call.kind = "selection"
        BACKEND.record_copy(call, version_of_frame(receiver), result)


def _trace_getitem(call: Call) -> None:
    """Trace frame[key]: a frame, a Series, or a scalar for `df[1, "x"]`."""
    key = call.args[0]
    if isinstance(call.result, (*BACKEND.frame_types, BACKEND.module.Series)):
        _trace_method(call)
    elif isinstance(key, tuple):
        _record_scalar(call, version_of_frame(call.receiver), key[-1])


def _trace_leaving(call: Call) -> None:
    """Trace frame.rows(), to_dicts(), to_numpy() and to_arrow(): the statement reads all columns."""
    version = version_of_frame(call.receiver)
    record_read(call.caller, version)
    if call.name == "item":
        _record_scalar(call, version, call.argument(1, "column"))
    elif isinstance(call.result, dict):
        for label, value in call.result.items():
            if isinstance(value, BACKEND.module.Series):
                value.__dict__[STATE_ATTR] = SeriesLineage(version.field(label))
    # Python objects have no weak references.
    with contextlib.suppress(TypeError):
        attach_to_array(call.result, version.fields(), version)


def _record_scalar(call: Call, version: FrameVersion, column: Any) -> None:
    """Record that a call returned a value of one column, or of any column if it is unknown."""
    if isinstance(column, int) and -len(version.columns) <= column < len(version.columns):
        column = version.columns[column]
    provenance = version.field(column) if isinstance(column, str) and version.has(column) else version.fields()
    attach_to_scalar(call.result, provenance)
    record_scalar(call.caller, provenance)


def _trace_parts(call: Call) -> None:
    """Trace frame.partition_by(columns) and get_columns(): several frames or Series."""
    parts = list(call.result.values() if isinstance(call.result, dict) else call.result)
    for part in parts:
        part_call = structs.replace(call, result=part)
        if isinstance(part, BACKEND.module.Series):
            _trace_get_column(part_call)
        elif isinstance(part, BACKEND.frame_types):
            keys = flatten(call.args) or flatten([call.kwargs.get("by")])
            _record_created(part_call, [call.receiver], "group_head", (keys,), {})


def _record_sql(call: Call, tables: dict[str, Any]) -> None:
    """Record a query over frames; those of variables are looked up by name."""
    text = call.first_argument()
    names = ChainMap(tables, read_locals(call.caller), call.caller.f_globals)
    frames = {word: names[word] for word in set(re.findall(r"\w+", str(text))) if word in names}
    frames = {name: frame for name, frame in frames.items() if is_frame(frame)}
    _record_created(call, list(frames.values()), "sql", (text, list(frames)), {})


def _trace_context(call: Call) -> None:
    """Trace SQLContext: registered frames, and queries over them."""
    tables: dict[str, Any] = call.receiver.__dict__.setdefault(STATE_ATTR, {})
    if call.name == "execute":
        if isinstance(call.result, BACKEND.frame_types):
            _record_sql(call, tables)
    elif call.name == "register":
        tables[str(call.argument(0, "name"))] = call.argument(1, "frame")
    elif isinstance(call.first_argument(), dict):
        tables.update(call.first_argument())
    tables.update({name: value for name, value in call.kwargs.items() if is_frame(value)})


def _trace_get_column(call: Call) -> None:
    """Trace frame["column"], frame.get_column("column"): attach lineage to the column, record no operation."""
    version, series = version_of_frame(call.receiver), call.result
    is_column = call.name in _COLUMN_METHODS and version.has(series.name)
    provenance = version.field(series.name) if is_column else version.fields(None, TRANSFORMATION | OPAQUE)
    series.__dict__[STATE_ATTR] = SeriesLineage(provenance)
    record_read(call.caller, provenance)


def _series_namespaces() -> list[type]:
    """Return the classes of `series.str`, `series.dt` and the other namespaces."""
    return [
        value
        for module_name, module in list(sys.modules.items())
        if module_name.startswith("polars.series.")
        for name, value in vars(module).items()
        if name.endswith("NameSpace") and isinstance(value, type) and value.__module__ == module_name
    ]


def _trace_namespace_init(call: Call) -> None:
    """Trace `series.str`: the namespace has the lineage of its Series."""
    series = call.argument(0, "series")
    if STATE_ATTR in series.__dict__:
        call.receiver.__dict__[STATE_ATTR] = series.__dict__[STATE_ATTR]


def _trace_namespace_method(call: Call) -> None:
    """Trace series.str.upper(): a transformation; which column a field of a struct comes from is inferred."""
    operands = [value for value in call.values() if isinstance(value, BACKEND.module.Series)]
    is_field = type(call.receiver).__name__ == "StructNameSpace" or any(map(uses_struct_field, call.values()))
    step = TRANSFORMATION | (INFERRED if is_field else 0)
    _assign_series_result(call, apply_direct(union(*map(series_provenance, (call.receiver, *operands))), step))


def _trace_series_method(call: Call) -> None:
    """Trace a Series method: a copy or a transformation of the Series and of the arguments."""
    operands = [value for value in call.args if isinstance(value, type(call.receiver))]
    step = IDENTITY if call.name in _SERIES_IDENTITY_METHODS else TRANSFORMATION
    _assign_series_result(call, apply_direct(union(*map(series_provenance, (call.receiver, *operands))), step))


def _assign_series_result(call: Call, provenance: Provenance) -> None:
    """Attach the lineage of a Series to the result of one of its methods; record an operation only for a frame."""
    result = call.result
    if isinstance(result, BACKEND.module.Series):
        result.__dict__[STATE_ATTR] = SeriesLineage(provenance)
    elif isinstance(result, BACKEND.frame_types) and provenance:
        version = BACKEND.snapshot(result)
        edges = ExplicitEdges(dict.fromkeys(version.columns, provenance))
        BACKEND.record(call, OperationRecord(call.name, "selection", version, edges), result)
    elif provenance and result is not None and not isinstance(result, (str, bytes, bool)):
        # A scalar, or values that leave polars.
        scalar = apply_direct(provenance, AGGREGATION)
        if isinstance(result, (list, dict, tuple)) or hasattr(result, "__array__") or hasattr(result, "to_pylist"):
            record_read(call.caller, provenance)
            with contextlib.suppress(TypeError):
                attach_to_array(result, provenance, [provenance])
        else:
            attach_to_scalar(result, scalar)
            record_scalar(call.caller, scalar)


def _trace_array_function(call: Call) -> None:
    """Trace a NumPy function of a Series: np.log(series)."""
    if isinstance(call.result, BACKEND.module.Series):
        operands = [value for value in (call.receiver, *call.args) if isinstance(value, BACKEND.module.Series)]
        provenance = apply_direct(union(*map(series_provenance, operands)), TRANSFORMATION)
        call.result.__dict__[STATE_ATTR] = SeriesLineage(provenance)


def _trace_series_init(call: Call) -> None:
    """Trace pl.Series(name, values)."""
    values = call.argument(1, "values")
    # The first argument may be the values.
    values = call.argument(0, "name") if values is None else values
    provenance = _value_provenance(values, call) if values is not None else {}
    call.receiver.__dict__[STATE_ATTR] = SeriesLineage(provenance)


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
    kwargs = call.kwargs if kwargs is None else kwargs
    if call.name in _COMPUTING_METHODS:
        # Values other than expressions are columns: `with_columns(z=array)`.
        kwargs = {name: value if _is_column(value) else _traced_value(value, call) for name, value in kwargs.items()}
    result.__dict__[STATE_ATTR] = PendingOperation(
        name or call.name, parents, call.args if args is None else args, kwargs, call.location(), _scalar_sources(call)
    )
    if isinstance(result, BACKEND.data_types):
        version = BACKEND.attached_version(result)
        if version is not None and version.made_by is not None and version.made_by.rows:
            # The number of rows may leave polars: `len(df.filter(condition))`.
            record_read(call.caller, version.made_by.rows)


def _is_column(value: Any) -> bool:
    return isinstance(value, (str, BACKEND.module.Expr, BACKEND.module.Series))


def _traced_value(value: Any, call: Call) -> SeriesLineage:
    return SeriesLineage(_value_provenance(value, call))


def _scalar_sources(call: Call) -> Provenance:
    """Return the sources of the values in the expressions of a call: scalars and lists that columns were read into."""
    numbers, has_lists = literal_values(flatten(call.values()))
    # Masks and positions that left polars: `df.filter(mask)`, `df[positions]`.
    keys = [_value_provenance(key, call) for key in _row_keys(call)] if call.name in _ROW_CONDITIONS else []
    lists = statement_provenance(call, call.name) if has_lists else {}
    if not has_reads():
        numbers = set()
    computed = [number for number in numbers if number not in call.caller.f_code.co_consts]
    sources = [source for number in computed for source in _number_sources(number, call)]
    return apply_direct(union(lists, *keys, *sources), TRANSFORMATION | INFERRED)


def _number_sources(number: float, call: Call) -> list[Provenance]:
    """Return the sources of a number: of the variables in the statement, else of the last scalar with its value.

    An expression keeps a copy of the number.
    """
    sources = scalar_sources(number, call.caller, _is_number)
    known = scalar_with_value(number) if not sources else None
    return sources if known is None else [known]


def _row_keys(call: Call) -> list[Any]:
    """Return the lists and arrays that select rows by their values or positions."""
    keys = [key[0] if isinstance(key, tuple) and key else key for key in call.args]
    return [
        key
        for key in keys
        if hasattr(key, "__array__") or (isinstance(key, list) and key and isinstance(key[0], (bool, int)))
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, BACKEND.module.Expr))


def _add_scalars(edges: Any, scalars: Provenance) -> Any:
    """Add the sources of scalars to the columns that an operation computes."""
    if isinstance(edges, ExplicitEdges):
        changed: dict[Any, Provenance] = edges.by_label
    else:
        changed = edges.changed or {}
    computed = {
        label: union(uses, scalars) if any(flags != IDENTITY for flags in uses.values()) or not uses else uses
        for label, uses in changed.items()
    }
    return (
        ExplicitEdges(computed)
        if isinstance(edges, ExplicitEdges)
        else IdentityEdges(edges.source, edges.flags, computed)
    )


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
    if call.name == "__iter__":
        # The groups are created one by one.
        call.result.__dict__[STATE_ATTR] = state
        return
    if call.name == "map_groups":
        _record_created(call, [frame], "map_groups", (), {})
        return
    if call.name in ("head", "tail"):
        _record_created(call, [frame], "group_head", (keys,), {})
        return
    expressions, named = flatten(call.args), call.kwargs
    if call.name != "agg":
        columns = BACKEND.module.all()
        aggregate = columns if call.name == "all" else getattr(columns, call.name)()
        expressions, named = ([] if call.name == "len" else [aggregate]), {}
    _record_created(call, [frame], "agg", (keys, expressions, named), {})


def _trace_next_group(call: Call) -> None:
    """Trace `for key, group in frame.group_by(keys)`."""
    state = call.receiver.__dict__.get(STATE_ATTR)
    if isinstance(state, tuple) and isinstance(call.result, tuple):
        # The key, which is a Python value.
        record_read(call.caller, merged_provenance(state[1], version_of_frame(state[0])))
        _record_created(structs.replace(call, result=call.result[1]), [state[0]], "group_head", (state[1],), {})


def _trace_frame_init(call: Call) -> None:
    """Trace pl.DataFrame(data)."""
    frame, data = call.receiver, call.argument(0, "data")
    call.name = type(frame).__name__
    _record_from_data(call, data, frame)


def _record_from_data(call: Call, data: Any, frame: Any) -> None:
    """Record a frame that was created from Python values, arrays, Series or another frame."""
    call.kind = "creation"
    source = version_of_frame(data) if is_frame(data) else array_version(data)
    if source is not None:
        version = BACKEND.snapshot(frame)
        fields = zip_by_position(list(version.columns), [source.field(label) for label in source.columns])
        BACKEND.record(call, OperationRecord(call.name, call.kind, version, ExplicitEdges(fields)), frame)
        return
    version = BACKEND.snapshot(frame)
    fields = {}
    if isinstance(data, dict):
        fields = {label: _value_provenance(value, call) for label, value in data.items()}
    elif isinstance(data, (list, tuple)) and data and all(isinstance(item, BACKEND.module.Series) for item in data):
        fields = zip_by_position(list(version.columns), [_value_provenance(series, call) for series in data])
    elif data is not None and not _is_code_literal(data, call):
        fields = dict.fromkeys(version.columns, _value_provenance(data, call))
    BACKEND.record(call, OperationRecord(call.name, call.kind, version, ExplicitEdges(fields)), frame)


def _value_provenance(value: Any, call: Call) -> Provenance:
    """Return the provenance of a value of a call: a Series, an array, a list or a scalar."""
    state = getattr(value, "__dict__", {}).get(STATE_ATTR)
    if isinstance(state, SeriesLineage):
        return state.provenance
    known = array_provenance(value)
    if known is not None:
        return known
    if isinstance(value, (int, float)):
        return apply_direct(union(*_number_sources(value, call)), TRANSFORMATION | INFERRED)
    if isinstance(value, (str, bytes, type(None), range)) or _is_code_literal(value, call):
        return {}
    return statement_provenance(call, call.name)


def _trace_function_of_frames(call: Call) -> None:
    """Trace pl.collect_all(frames) and pl.align_frames(*frames): each result is a frame."""
    argument = call.first_argument()
    frames = call.args if is_frame(argument) else call.pre_state or list(argument)
    for index, result in enumerate(call.result):
        if call.name == "collect_all":
            _record_created(structs.replace(call, result=result), [frames[index]], "collect", (), {})
        else:
            _record_created(structs.replace(call, result=result), list(frames), None, (), {})


def _trace_function(call: Call) -> None:
    argument = call.first_argument()
    if not isinstance(call.result, BACKEND.frame_types):
        return
    if call.name == "concat":
        _record_created(call, call.pre_state or list(argument or ()))
    elif call.name == "sql":
        _record_sql(call, {})
    elif call.name == "from_pandas":
        call.kind = "selection"
        BACKEND.record_copy(call, version_of_frame(argument) if is_frame(argument) else None, call.result)
    elif call.name.startswith("from_") or call.name == "json_normalize":
        _record_from_data(call, argument, call.result)
    elif call.name.startswith("read_database"):
        _trace_read_database(call)
    elif isinstance(call.result, BACKEND.data_types):
        BACKEND.record_read(call)
    else:
        # The schema of a scan is known once it is collected.
        _record_created(call, [], call.name, (argument,), {})


def _is_code_literal(data: Any, call: Call) -> bool:
    """Return whether a list is a literal of the code, or has such lists as items."""
    if not isinstance(data, (list, tuple)):
        return False
    is_nested = bool(data) and all(isinstance(item, (list, tuple)) for item in data)
    return is_literal(data, call.values(), call.caller) or (
        is_nested and all(_is_code_literal(item, call) for item in data)
    )


def _trace_read_database(call: Call) -> None:
    """Trace pl.read_database(query, connection) and read_database_uri(query, uri)."""
    text, connection = str(call.argument(0, "query")), call.argument(1, "connection", call.kwargs.get("uri"))
    database = connection_database(connection, text)
    query = StatementRecorder(call, BACKEND.name, connection, database, {}).run(text)
    if query is not None:
        BACKEND.record(call, QueryRecord.of(call.name, query, BACKEND.snapshot(call.result), "io"), call.result)
