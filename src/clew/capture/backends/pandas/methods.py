"""Registry of methods and their rules; methods are enumerated from pandas, so that new ones get a fallback rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.core.groupby import DataFrameGroupBy, SeriesGroupBy
from pandas.core.groupby.indexing import GroupByNthSelector
from pandas.core.resample import Resampler
from pandas.core.window.rolling import BaseWindow

from clew.capture.backends.base import Call, public_methods
from clew.capture.backends.pandas import (
    aggregation,
    assignment,
    elementwise,
    groupby,
    io,
    joins,
    reshape,
    selection,
    series,
)
from clew.capture.backends.pandas.call import (
    OPERATORS,
    argument_provenance,
    assign_to_result,
    record_created,
)
from clew.capture.backends.pandas.elementwise import patch_numpy
from clew.capture.backends.pandas.index import patch_accessors, patch_indexes
from clew.capture.backends.pandas.indexing import patch_indexers
from clew.capture.backends.pandas.inference import evaluate_arguments, evaluate_cases
from clew.capture.backends.pandas.patching import patches
from clew.capture.backends.pandas.selection import patch_iteration
from clew.capture.backends.pandas.state import (
    current_version,
    install_state_attr,
    lineage_or_empty,
    provenance_of,
    provenance_or_empty,
    remove_state_attr,
)
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges
from clew.capture.lineage.provenance import apply_direct, attach_to_array, attach_to_series, union
from clew.capture.lineage.transformations import OPAQUE, TRANSFORMATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.capture.lineage.frame_version import FrameVersion

FRAME_RULES: dict[str, Callable[[Call], None]] = {
    **elementwise.RULES,
    **aggregation.RULES,
    **reshape.RULES,
    **selection.RULES,
    **assignment.RULES,
    **joins.RULES,
    **elementwise.EVAL_RULES,
    **io.RULES,
    **dict.fromkeys(("to_dict", "to_records"), selection.trace_export),
    "groupby": aggregation.trace_groupby,
    "resample": aggregation.trace_resample,
    **dict.fromkeys(("rolling", "expanding", "ewm"), aggregation.trace_window),
}
SERIES_RULES: dict[str, Callable[[Call], None]] = {
    **series.RULES,
    **series.SERIES_INDEX_RULES,
    **dict.fromkeys(io.WRITERS, io.trace_series_write),
    "groupby": aggregation.trace_series_groupby,
    "resample": aggregation.trace_series_resample,
    **dict.fromkeys(("rolling", "expanding", "ewm"), aggregation.trace_series_window),
}

# These create no data, or export it in a form that cannot have provenance.
_IGNORED_METHODS = frozenset(
    "plot hist boxplot info keys memory_usage pipe to_string to_html to_markdown to_clipboard "
    "equals first_valid_index last_valid_index attrs iloc loc at iat style sparse to_xarray to_iceberg "
    "items iterrows itertuples tolist to_list view".split()
)
_IN_PLACE_METHODS = ("fillna", "replace", "interpolate", "ffill", "bfill", "clip", "where", "mask", "update")
_STACK_LEVEL_METHODS = ("query", "eval")
_WINDOW_METHODS = (
    "sum mean median min max std var sem count skew kurt corr cov quantile apply agg aggregate rank first last nunique"
).split()
_RESAMPLER_METHODS = ("prod", "size", "ohlc", "transform", "ffill", "bfill", "nearest", "asfreq", "interpolate")
_IGNORED_GROUPBY_METHODS = ("hist", "boxplot", "pipe", "plot")
_VALUE_FUNCTIONS = (
    "cut",
    "qcut",
    "to_datetime",
    "to_numeric",
    "to_timedelta",
    "isna",
    "isnull",
    "notna",
    "notnull",
    "factorize",
    "unique",
)


def install() -> None:
    """Patch pandas and NumPy; 4 ms, once."""
    if patches.is_installed:
        return
    install_state_attr()
    _patch_frames()
    _patch_series()
    _patch_groupbys()
    _patch_windows()
    patch_indexers()
    patch_accessors()
    _patch_functions()
    io.patch_chunk_readers()
    patch_indexes()
    patch_iteration()
    patch_numpy()


def uninstall() -> None:
    """Remove all patches."""
    patches.remove()
    remove_state_attr()


def _patch_frames() -> None:
    frame = pd.DataFrame
    operators = [
        name for name in FRAME_RULES if name.startswith("__") and hasattr(frame, name) and name != "__setitem__"
    ]
    for name in (*public_methods(frame, _IGNORED_METHODS), *operators):
        rule = FRAME_RULES.get(name) or trace_unknown_method
        if name in _STACK_LEVEL_METHODS:
            patches.stack_level_method(frame, name, rule, current_version)
        elif name in _IN_PLACE_METHODS:
            patches.in_place_method(frame, name, rule, current_version, _ARG_REWRITERS.get(name))
        else:
            patches.method(frame, name, rule, current_version, _ARG_REWRITERS.get(name))
    patches.setitem(frame, assignment.trace_setitem, current_version, assignment.evaluate_setitem_key)
    patches.method(frame, "__init__", io.trace_frame_init)
    selection.patch_frame_getitem()
    _patch_values(frame)


_ARG_REWRITERS = {
    "assign": assignment.wrap_assign_callbacks,
    "select": assignment.wrap_select_callbacks,
    "where": evaluate_arguments,
    "mask": evaluate_arguments,
    "case_when": evaluate_cases,
}


def _patch_series() -> None:
    owner = pd.Series
    operators = [name for name in OPERATORS if hasattr(owner, name)]
    special = [name for name in SERIES_RULES if name.startswith("__") and name != "__setitem__"]
    for name in dict.fromkeys((*public_methods(owner, _IGNORED_METHODS), *operators, "__matmul__", "items", *special)):
        rule = SERIES_RULES.get(name)
        if name in _IN_PLACE_METHODS:
            patches.in_place_method(
                owner, name, rule or _series_in_place_rule(name), lineage_or_empty, _ARG_REWRITERS.get(name)
            )
        elif rule is not None:
            patches.method(owner, name, rule, lineage_or_empty, _ARG_REWRITERS.get(name))
        else:
            series.patch_series_method(name)
    patches.setitem(owner, series.trace_series_setitem, lineage_or_empty)
    patches.method(owner, "__init__", io.trace_series_init)
    _patch_values(owner)


def _series_in_place_rule(name: str) -> Callable[[Call], None]:
    step = series.step_of_method(name)

    def rule(call: Call) -> None:
        state = call.pre_state
        operands = [series.series_argument_provenance(value, call) for value in call.values()]
        provenance = apply_direct(union(state.provenance, *operands), step)
        target = call.result if isinstance(call.result, pd.Series) else call.receiver
        attach_to_series(target, provenance, state.index, state.rows)

    return rule


def _patch_values(owner: Any) -> None:
    def rule(call: Call) -> None:
        provenance = provenance_of(call.receiver)
        if provenance:
            assign_to_result(call, provenance)

    if owner is pd.Series:
        patches.getter(owner, "values", rule)
        patches.getter(owner, "array", rule)
    else:
        patches.getter(owner, "values", aggregation.trace_to_numpy, current_version)
        patches.getter(owner, "T", FRAME_RULES["transpose"], current_version)


def _patch_groupbys() -> None:
    for owner in (DataFrameGroupBy, SeriesGroupBy):
        for name in public_methods(owner, _IGNORED_METHODS):
            if name in ("rolling", "expanding", "ewm", "resample"):
                patches.method(owner, name, aggregation.trace_groupby_window)
            elif name not in _IGNORED_GROUPBY_METHODS:
                patches.method(owner, name, groupby.groupby_rule(name))
        patches.method(owner, "__getitem__", aggregation.trace_groupby_getitem)
    for name in ("__call__", "__getitem__"):
        patches.method(GroupByNthSelector, name, groupby.trace_nth)


def _patch_windows() -> None:
    for owner in (BaseWindow, *_subclasses(BaseWindow)):
        for name in _WINDOW_METHODS:
            if name in vars(owner):
                patches.method(owner, name, groupby.groupby_rule(name))
    for name in (*_WINDOW_METHODS, *_RESAMPLER_METHODS):
        if hasattr(Resampler, name):
            patches.method(Resampler, name, groupby.groupby_rule(name))
    for owner in (BaseWindow, Resampler):
        patches.method(owner, "__getitem__", aggregation.trace_groupby_getitem)


def _subclasses(owner: type) -> list[type]:
    direct: list[type] = owner.__subclasses__()
    return [*direct, *[descendant for subclass in direct for descendant in _subclasses(subclass)]]


def _patch_functions() -> None:
    patches.function(pd, "merge", joins.trace_merge_function)
    patches.function(pd, "merge_asof", joins.trace_merge_asof)
    patches.function(pd, "merge_ordered", joins.trace_merge_ordered)
    patches.function(pd, "concat", joins.trace_concat, joins.buffer_concat_objects)
    patches.function(pd, "melt", reshape.module_function_rule(reshape.trace_melt, "frame"))
    patches.function(pd, "pivot", reshape.module_function_rule(reshape.trace_pivot, "data"))
    patches.function(pd, "pivot_table", reshape.module_function_rule(reshape.trace_pivot_table, "data"))
    patches.function(pd, "get_dummies", reshape.trace_get_dummies)
    patches.function(pd, "crosstab", reshape.trace_crosstab)
    patches.function(pd, "wide_to_long", reshape.trace_wide_to_long)
    for name in _VALUE_FUNCTIONS:
        patches.function(pd, name, trace_value_function)
    for name in dir(pd):
        if name.startswith("read_") and name != "read_clipboard":
            patches.function(pd, name, io.trace_read)
    for name in ("from_dummies", "json_normalize", "lreshape"):
        patches.function(pd, name, trace_unknown_function)
    patches.method(pd.Categorical, "__init__", trace_categorical_init)
    for name in ("from_dict", "from_records", "from_arrow"):
        if hasattr(pd.DataFrame, name):
            patches.class_method(pd.DataFrame, name, io.trace_frame_from)


def trace_unknown_function(call: Call) -> None:
    """Trace a function without a rule: every column comes from all arguments, flagged OPAQUE."""
    versions = [current_version(value) for value in call.values() if isinstance(value, pd.DataFrame)]
    provenance = apply_direct(union(*[provenance_or_empty(value) for value in call.values()]), TRANSFORMATION | OPAQUE)
    if isinstance(call.result, pd.DataFrame):
        record_created(
            call, "creation", ExplicitEdges(dict.fromkeys(call.result.columns, provenance)), None, tuple(versions)
        )


def trace_categorical_init(call: Call) -> None:
    """Trace pd.Categorical(values)."""
    attach_to_array(call.receiver, apply_direct(provenance_or_empty(call.argument(0, "values")), TRANSFORMATION))


def trace_value_function(call: Call) -> None:
    """Trace cut, to_datetime, isna: computed from the first argument."""
    value = call.args[0] if call.args else next(iter(call.kwargs.values()), None)
    if isinstance(value, pd.DataFrame) and isinstance(call.result, pd.DataFrame):
        version = current_version(value)
        record_created(call, "transformation", IdentityEdges(version, TRANSFORMATION), None, (version,))
        return
    provenance = apply_direct(
        union(*[argument_provenance(argument, call) for argument in call.values()]), TRANSFORMATION
    )
    if not provenance:
        return
    results = call.result if isinstance(call.result, tuple) else (call.result,)
    state = lineage_or_empty(value) if isinstance(value, pd.Series) else None
    for result in results:
        if isinstance(result, pd.Series):
            attach_to_series(
                result,
                provenance,
                state.index if state is not None else None,
                state.rows if state is not None else None,
            )
        else:
            call.result = result
            assign_to_result(call, provenance)


def trace_unknown_method(call: Call) -> None:
    """Trace a method without a rule, e.g. of a newer pandas: from all columns, flagged OPAQUE."""
    version: FrameVersion = call.pre_state
    result = call.result
    step = TRANSFORMATION | OPAQUE
    if isinstance(result, pd.DataFrame):
        all_columns = version.fields(None, step)
        fields = {label: all_columns for label in result.columns if not version.has(label)}
        record_created(call, "unknown", IdentityEdges(version, step, fields), None, (version,))
    elif isinstance(result, pd.Series):
        attach_to_series(result, version.fields(None, step))
