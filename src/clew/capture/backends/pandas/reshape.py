"""Rules for reshaping: melt, pivot, stack, explode, get_dummies, crosstab."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pandas as pd

from clew.capture.backends.base import Call
from clew.capture.backends.pandas.aggregation import resolve_key, to_key_list
from clew.capture.backends.pandas.call import assign_to_result, record_created
from clew.capture.backends.pandas.inference import has_user_function
from clew.capture.backends.pandas.state import as_labels, current_version, provenance_or_empty
from clew.capture.lineage.frame_version import index_names
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges
from clew.capture.lineage.provenance import Provenance, apply_direct, as_indirect, attach_to_series, union
from clew.capture.lineage.transformations import AGGREGATION, FILTER, GROUP_BY, IDENTITY, OPAQUE, TRANSFORMATION

if TYPE_CHECKING:
    from collections.abc import Hashable

    from clew.capture.lineage.frame_version import FrameVersion


def trace_melt(call: Call) -> None:
    """Trace df.melt(...): columns become rows; the column of variable names has no source."""
    version: FrameVersion = call.pre_state
    id_columns = as_labels(call.argument(0, "id_vars"))
    value_vars = call.argument(1, "value_vars")
    value_columns = (
        as_labels(value_vars)
        if value_vars is not None
        else [label for label in version.columns if label not in id_columns]
    )
    value_name = call.argument(3, "value_name", "value")
    fields: dict[Hashable, Provenance] = {}
    for name in index_names(call.result.index):
        fields[name] = version.field(name) if version.has(name) else {}
    for label in call.result.columns:
        fields[label] = (
            version.field(label)
            if label in id_columns
            else version.fields(value_columns)
            if label == value_name
            else {}
        )
    record_created(call, ExplicitEdges(fields), None, (version,))


def trace_pivot(call: Call) -> None:
    """Trace df.pivot(columns=..., index=..., values=...)."""
    raw_arguments = (call.kwargs.get("index"), call.kwargs.get("columns"), call.kwargs.get("values"))
    index, columns, values = [_none_if_default(argument) for argument in raw_arguments]
    if index is None:
        # Rows are then identified by the index.
        index = list(call.pre_state.index_names)
    _record_pivot(call, index, columns, values, IDENTITY, drops_empty=False)


def trace_pivot_table(call: Call) -> None:
    """Trace df.pivot_table(values, index, columns, aggfunc)."""
    values, index, columns = call.argument(0, "values"), call.argument(1, "index"), call.argument(2, "columns")
    function = call.argument(3, "aggfunc", "mean")
    if isinstance(function, str) and function == "size":
        # A row count has no source column.
        values = []
    elif isinstance(function, dict) and values is None:
        values = list(function)
    step = AGGREGATION | (OPAQUE if has_user_function(function) else 0)
    _record_pivot(call, index, columns, values, step, drops_empty=bool(call.argument(6, "dropna", default=True)))


def _none_if_default(argument: Any) -> Any:
    # pandas uses a sentinel for omitted arguments.
    return None if "NoDefault" in type(argument).__name__ else argument


def _record_pivot(call: Call, index: Any, columns: Any, values: Any, step: int, *, drops_empty: bool) -> None:
    version, result = call.pre_state, call.result
    if not isinstance(result, pd.DataFrame):
        assign_to_result(call, version.fields(None, step))
        return
    rows_by, columns_by = to_key_list(index), to_key_list(columns)
    keys = [resolve_key(version, key) for key in (*rows_by, *columns_by)]
    names = dict(keys)
    value_columns = (
        as_labels(values) if values is not None else [label for label in version.columns if label not in names]
    )
    rows = union(*[as_indirect(key, GROUP_BY) for _, key in keys])
    if drops_empty:
        # Rows and columns that are all NaN are dropped.
        rows = union(
            rows, *[as_indirect(version.field(label), FILTER) for label in value_columns if version.has(label)]
        )
    fields: dict[Hashable, Provenance] = {}
    for name in index_names(result.index):
        fields[name] = names.get(name) or (version.field(name) if version.has(name) else {})
    for label in result.columns:
        fields[label] = apply_direct(version.fields(_value_columns(label, value_columns, columns_by, result)), step)
    record_created(call, ExplicitEdges(fields), rows, (version,))


def _value_columns(label: Any, value_columns: list[Any], columns_by: list[Any], result: Any) -> list[Any]:
    """Return the value columns of one pivot column: those in its label, else all."""
    if isinstance(label, tuple) and (not columns_by or result.columns.nlevels > len(columns_by)):
        return [column for column in value_columns if column in label] or value_columns
    if not columns_by and label in value_columns:
        return [label]
    return value_columns


def trace_stack(call: Call) -> None:
    """Trace df.stack(): columns become an inner level."""
    version, result = call.pre_state, call.result
    levels = version.levels()
    if isinstance(result, pd.Series):
        attach_to_series(result, version.fields(), levels or None)
        return
    fields: dict[Hashable, Provenance] = dict(levels)
    for label in result.columns:
        sources = [column for column in version.columns if isinstance(column, tuple) and label in column] or list(
            version.columns
        )
        fields[label] = version.fields(sources)
    record_created(call, ExplicitEdges(fields), None, (version,))


def trace_unstack(call: Call) -> None:
    """Trace df.unstack(): a level becomes columns."""
    version, result = call.pre_state, call.result
    if isinstance(result, pd.Series):
        attach_to_series(result, version.fields(), version.levels() or None)
        return
    names = index_names(result.index)
    fields: dict[Hashable, Provenance] = {name: version.field(name) for name in names if version.has(name)}
    for label in result.columns:
        sources = [
            column
            for column in version.columns
            if isinstance(label, tuple) and (column == label[0] or column == label[:-1])
        ]
        fields[label] = version.fields(sources or None)
    moved_levels = [name for name in version.index_names if name not in names]
    record_created(call, ExplicitEdges(fields), version.fields(moved_levels, GROUP_BY), (version,))


def trace_explode(call: Call) -> None:
    """Trace df.explode(column): lists become rows, other columns are repeated."""
    version: FrameVersion = call.pre_state
    labels = as_labels(call.argument(0, "column"))
    repetition = version.fields(labels, FILTER)
    fields = {
        label: apply_direct(version.field(label), TRANSFORMATION)
        if label in labels
        else union(version.field(label), repetition)
        for label in version.labels()
    }
    record_created(call, IdentityEdges(version, IDENTITY, fields), None, (version,))


def trace_get_dummies(call: Call) -> None:
    """Trace pd.get_dummies(data, columns=...): one column per value."""
    data, result = call.argument(0, "data"), call.result
    if not isinstance(data, pd.DataFrame):
        assign_to_result(call, apply_direct(provenance_or_empty(data), TRANSFORMATION))
        return
    version = current_version(data)
    encoded = as_labels(call.kwargs.get("columns")) or [label for label in data.columns if label not in result.columns]
    prefixes = _dummy_prefixes(encoded, call.argument(1, "prefix"), call.argument(2, "prefix_sep", "_"))
    fields: dict[Hashable, Provenance] = {}
    for label in result.columns:
        if version.has(label) and label not in encoded:
            fields[label] = version.field(label)
        else:
            fields[label] = version.fields(_dummy_sources(label, prefixes, data) or encoded, TRANSFORMATION)
    record_created(call, ExplicitEdges(fields), None, (version,))


def _dummy_prefixes(encoded: list[Any], prefix: Any, separator: str) -> dict[Any, str]:
    def prefix_of(position: int, label: Any) -> Any:
        if isinstance(prefix, str):
            return prefix
        if isinstance(prefix, dict):
            return prefix.get(label, label)
        return prefix[position] if prefix else label

    return {label: f"{prefix_of(position, label)}{separator}" for position, label in enumerate(encoded)}


def _dummy_sources(label: Hashable, prefixes: dict[Any, str], data: pd.DataFrame) -> list[Any]:
    candidates = [column for column, prefix in prefixes.items() if str(label).startswith(prefix)]
    longest = max((len(prefixes[column]) for column in candidates), default=0)
    candidates = [column for column in candidates if len(prefixes[column]) == longest]
    if len(candidates) > 1:
        # Columns with the same prefix are distinguished by their values.
        value = str(label)[longest:]
        candidates = [column for column in candidates if value in map(str, data[column].unique())] or candidates
    return candidates


def trace_crosstab(call: Call) -> None:
    """Trace pd.crosstab(index, columns, values): counts or aggregates `values` per pair."""
    index, columns, values = call.argument(0, "index"), call.argument(1, "columns"), call.argument(2, "values")
    by_row = to_key_list(index)
    rows = union(*[as_indirect(provenance_or_empty(key), GROUP_BY) for key in (*by_row, *to_key_list(columns))])
    value_provenance = apply_direct(provenance_or_empty(values), AGGREGATION) if values is not None else {}
    fields: dict[Hashable, Provenance] = dict.fromkeys(call.result.columns, value_provenance)
    for name, key in zip(index_names(call.result.index), by_row, strict=False):
        fields[name] = provenance_or_empty(key)
    record_created(call, ExplicitEdges(fields), rows)


def trace_wide_to_long(call: Call) -> None:
    """Trace pd.wide_to_long(df, stubnames, i, j): columns with a common stub become one."""
    version = current_version(call.argument(0, "df"))
    stubs = as_labels(call.argument(1, "stubnames"))
    suffix_pattern = re.escape(call.argument(4, "sep", "")) + call.argument(5, "suffix", r"\d+")
    fields: dict[Hashable, Provenance] = {}
    for label in (*index_names(call.result.index), *call.result.columns):
        if label in stubs:
            pattern = re.compile(re.escape(str(label)) + suffix_pattern)
            fields[label] = version.fields([column for column in version.columns if pattern.fullmatch(str(column))])
        else:
            fields[label] = version.field(label) if version.has(label) else {}
    record_created(call, ExplicitEdges(fields), None, (version,))
