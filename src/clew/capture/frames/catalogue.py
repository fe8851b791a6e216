"""Which rule looks on at which method: the list is derived from pandas itself, so that a new method is never missed."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.core.groupby import DataFrameGroupBy, SeriesGroupBy
from pandas.core.groupby.indexing import GroupByNthSelector
from pandas.core.resample import Resampler
from pandas.core.window.rolling import BaseWindow

from clew.capture.flags import OPAQUE, TRANSFORMATION
from clew.capture.frames import (
    assignment,
    creation,
    elementwise,
    expressions,
    files,
    group_results,
    grouping,
    joins,
    reductions,
    reshaping,
    selection,
    series,
    series_labels,
)
from clew.capture.frames.accessors import hook_accessors
from clew.capture.frames.arrays import hook_arrays
from clew.capture.frames.callbacks import evaluate_arguments, evaluate_cases
from clew.capture.frames.calls import Call, brought, made, spread
from clew.capture.frames.hooks import (
    hook_classmethod,
    hook_function,
    hook_getter,
    hook_in_place,
    hook_levelled,
    hook_method,
    hook_setitem,
    is_installed,
    nothing,
    remove_all,
)
from clew.capture.frames.indexers import hook_indexers
from clew.capture.frames.indexes import hook_indexes
from clew.capture.frames.iteration import hook_iteration
from clew.capture.frames.operators import OPERATORS
from clew.capture.frames.state import give_defaults, known, provenance_of, series_parts, take_defaults, version_of
from clew.capture.provenance import mark_series, remember_array, through, union
from clew.capture.records import Listed, SameLabels

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.capture.versions import FrameVersion

FRAME_RULES: dict[str, Callable[[Call], None]] = {
    **elementwise.RULES,
    **reductions.RULES,
    **reshaping.RULES,
    **selection.RULES,
    **assignment.RULES,
    **joins.RULES,
    **expressions.RULES,
    **files.RULES,
    **dict.fromkeys(("to_dict", "to_records"), selection.handed_out),
    "groupby": grouping.groupby,
    "resample": grouping.resample,
    **dict.fromkeys(("rolling", "expanding", "ewm"), grouping.window),
}
SERIES_RULES: dict[str, Callable[[Call], None]] = {
    **series.RULES,
    **series_labels.RULES,
    **dict.fromkeys(files.WRITERS, files.write_series),
    "groupby": grouping.groupby_series,
    "resample": grouping.resample_series,
    **dict.fromkeys(("rolling", "expanding", "ewm"), grouping.window_series),
}

# These make no data, or hand it out in a form that has no provenance to carry.
_LEFT_ALONE = frozenset(
    "plot hist boxplot info keys memory_usage pipe to_string to_html to_markdown to_clipboard "
    "equals first_valid_index last_valid_index attrs iloc loc at iat style sparse to_xarray to_iceberg "
    "items iterrows itertuples tolist to_list view".split()
)
_IN_PLACE = ("fillna", "replace", "interpolate", "ffill", "bfill", "clip", "where", "mask", "update")
_LEVELLED = ("query", "eval")
_WINDOW_METHODS = (
    "sum mean median min max std var sem count skew kurt corr cov quantile apply agg aggregate rank first last nunique"
).split()
_RESAMPLER_METHODS = ("prod", "size", "ohlc", "transform", "ffill", "bfill", "nearest", "asfreq", "interpolate")
_NOT_OVER_GROUPS = ("hist", "boxplot", "pipe", "plot")
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
    """Put every wrapper in place; 4 ms, once."""
    if is_installed():
        return
    give_defaults()
    _hook_frames()
    _hook_series()
    _hook_groups()
    _hook_windows()
    hook_indexers()
    hook_accessors()
    _hook_functions()
    files.hook_readers()
    hook_indexes()
    hook_iteration()
    hook_arrays()


def uninstall() -> None:
    """Take every wrapper out again."""
    remove_all()
    take_defaults()


def _public_methods(owner: Any) -> list[str]:
    names = [name for name in dir(owner) if not name.startswith("_") and name not in _LEFT_ALONE]
    return [name for name in names if inspect.isfunction(inspect.getattr_static(owner, name))]


def _hook_frames() -> None:
    frame = pd.DataFrame
    operators = [
        name for name in FRAME_RULES if name.startswith("__") and hasattr(frame, name) and name != "__setitem__"
    ]
    for name in (*_public_methods(frame), *operators):
        rule = FRAME_RULES.get(name) or unknown_method
        if name in _LEVELLED:
            hook_levelled(frame, name, rule, version_of)
        elif name in _IN_PLACE:
            hook_in_place(frame, name, rule, version_of, _PREPARATIONS.get(name))
        else:
            hook_method(frame, name, rule, version_of, _PREPARATIONS.get(name))
    hook_setitem(frame, assignment.setitem, version_of, assignment.evaluate_key)
    hook_method(frame, "__init__", creation.created)
    selection.hook_getitem()
    _hook_values(frame)


_PREPARATIONS = {
    "assign": assignment.watch_assigned,
    "select": assignment.watch_selected,
    "where": evaluate_arguments,
    "mask": evaluate_arguments,
    "case_when": evaluate_cases,
}


def _hook_series() -> None:
    owner = pd.Series
    operators = [name for name in OPERATORS if hasattr(owner, name)]
    special = [name for name in SERIES_RULES if name.startswith("__") and name != "__setitem__"]
    for name in dict.fromkeys((*_public_methods(owner), *operators, "__matmul__", "items", *special)):
        rule = SERIES_RULES.get(name)
        if name in _IN_PLACE:
            hook_in_place(owner, name, rule or _series_in_place(name), series_parts, _PREPARATIONS.get(name))
        elif rule is not None:
            hook_method(owner, name, rule, series_parts, _PREPARATIONS.get(name))
        else:
            series.hook_series(name)
    hook_setitem(owner, series.assigned, series_parts)
    hook_method(owner, "__init__", creation.created_series)
    _hook_values(owner)


def _series_in_place(name: str) -> Callable[[Call], None]:
    step = series.step_of(name)

    def rule(call: Call) -> None:
        state = call.before
        given = [series.given(value, call) for value in call.values()]
        provenance = through(union(state.provenance, *given), step)
        target = call.result if isinstance(call.result, pd.Series) else call.subject
        mark_series(target, provenance, state.index, state.rows)

    return rule


def _hook_values(owner: Any) -> None:
    def rule(call: Call) -> None:
        provenance = provenance_of(call.subject)
        if provenance:
            spread(call, provenance)

    if owner is pd.Series:
        hook_getter(owner, "values", rule)
        hook_getter(owner, "array", rule)
    else:
        hook_getter(owner, "values", lambda call: reductions.as_array(_before(call)))
        hook_getter(owner, "T", lambda call: FRAME_RULES["transpose"](_before(call)))


def _before(call: Call) -> Call:
    call.before = version_of(call.subject)
    return call


def _hook_groups() -> None:
    for owner in (DataFrameGroupBy, SeriesGroupBy):
        for name in _public_methods(owner):
            if name in ("rolling", "expanding", "ewm", "resample"):
                hook_method(owner, name, grouping.window_of_groups)
            elif name not in _NOT_OVER_GROUPS:
                hook_method(owner, name, group_results.over_groups(name))
        hook_method(owner, "__getitem__", grouping.selection_of_groups)
    for name in ("__call__", "__getitem__"):
        hook_method(GroupByNthSelector, name, group_results.nth_rows)


def _hook_windows() -> None:
    for owner in (BaseWindow, *_subclasses(BaseWindow)):
        for name in _WINDOW_METHODS:
            if name in vars(owner):
                hook_method(owner, name, group_results.over_groups(name))
    for name in (*_WINDOW_METHODS, *_RESAMPLER_METHODS):
        if hasattr(Resampler, name):
            hook_method(Resampler, name, group_results.over_groups(name))
    for owner in (BaseWindow, Resampler):
        hook_method(owner, "__getitem__", grouping.selection_of_groups)


def _subclasses(owner: type) -> list[type]:
    direct: list[type] = owner.__subclasses__()
    return [*direct, *[deeper for one in direct for deeper in _subclasses(one)]]


def _hook_functions() -> None:
    hook_function(pd, "merge", joins.merge_function)
    hook_function(pd, "merge_asof", joins.merge_asof)
    hook_function(pd, "merge_ordered", joins.merge_ordered)
    hook_function(pd, "concat", joins.concat, joins.listed_objects)
    hook_function(pd, "melt", reshaping.on_frame(reshaping.melt, "frame"))
    hook_function(pd, "pivot", reshaping.on_frame(reshaping.pivot, "data"))
    hook_function(pd, "pivot_table", reshaping.on_frame(reshaping.pivot_table, "data"))
    hook_function(pd, "get_dummies", reshaping.get_dummies)
    hook_function(pd, "crosstab", reshaping.crosstab)
    hook_function(pd, "wide_to_long", reshaping.wide_to_long)
    for name in _VALUE_FUNCTIONS:
        hook_function(pd, name, of_argument)
    for name in dir(pd):
        if name.startswith("read_") and name != "read_clipboard":
            hook_function(pd, name, files.read)
    for name in ("from_dummies", "json_normalize", "lreshape"):
        hook_function(pd, name, unknown_function)
    hook_method(pd.Categorical, "__init__", categorized)
    for name in ("from_dict", "from_records", "from_arrow"):
        if hasattr(pd.DataFrame, name):
            hook_classmethod(pd.DataFrame, name, creation.created_from)


def unknown_function(call: Call) -> None:
    """A function that makes a frame in a way of its own: from all that it was given, and flagged as such."""
    versions = [version_of(value) for value in call.values() if isinstance(value, pd.DataFrame)]
    provenance = through(union(*[known(value) for value in call.values()]), TRANSFORMATION | OPAQUE)
    if isinstance(call.result, pd.DataFrame):
        made(call, "creation", Listed(dict.fromkeys(call.result.columns, provenance)), None, tuple(versions))


def categorized(call: Call) -> None:
    """pd.Categorical(values)."""
    remember_array(call.subject, through(known(call.argument(0, "values")), TRANSFORMATION))


def of_argument(call: Call) -> None:
    """cut, to_datetime, isna: computed from the first argument."""
    value = call.args[0] if call.args else next(iter(call.kwargs.values()), None)
    if isinstance(value, pd.DataFrame) and isinstance(call.result, pd.DataFrame):
        version = version_of(value)
        made(call, "transformation", SameLabels(version, TRANSFORMATION), None, (version,))
        return
    provenance = through(union(*[brought(one, call) for one in call.values()]), TRANSFORMATION)
    if not provenance:
        return
    results = call.result if isinstance(call.result, tuple) else (call.result,)
    state = series_parts(value) if isinstance(value, pd.Series) else None
    for result in results:
        if isinstance(result, pd.Series):
            mark_series(
                result,
                provenance,
                state.index if state is not None else None,
                state.rows if state is not None else None,
            )
        else:
            call.result = result
            spread(call, provenance)


def unknown_method(call: Call) -> None:
    """A method without a rule, as a later pandas may bring: from all columns, and flagged as such."""
    version: FrameVersion = call.before
    result = call.result
    step = TRANSFORMATION | OPAQUE
    if isinstance(result, pd.DataFrame):
        everything = version.fields(None, step)
        fields = {label: everything for label in result.columns if not version.has(label)}
        made(call, "unknown", SameLabels(version, step, fields), None, (version,))
    elif isinstance(result, pd.Series):
        mark_series(result, version.fields(None, step))


__all__ = ["install", "nothing", "uninstall"]
