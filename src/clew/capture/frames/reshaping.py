"""Rules for turning rows into columns and columns into rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pandas as pd

from clew.capture.flags import AGGREGATION, FILTER, GROUP_BY, IDENTITY, OPAQUE, TRANSFORMATION
from clew.capture.frames.calls import Call, made, spread
from clew.capture.frames.functions import has_function
from clew.capture.frames.grouping import frame_key, key_list
from clew.capture.frames.state import as_labels, index_names, known, version_of
from clew.capture.provenance import Provenance, mark_series, through, union, used_for
from clew.capture.records import Listed, SameLabels

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from clew.capture.versions import FrameVersion


def melt(call: Call) -> None:
    """Columns become rows; the column that holds their names is fed by none."""
    version: FrameVersion = call.before
    kept = as_labels(call.argument(0, "id_vars"))
    given = call.argument(1, "value_vars")
    melted = as_labels(given) if given is not None else [label for label in version.columns if label not in kept]
    value_name = call.argument(3, "value_name", "value")
    fields: dict[Hashable, Provenance] = {}
    for name in index_names(call.result.index):
        fields[name] = version.field(name) if version.has(name) else {}
    for label in call.result.columns:
        fields[label] = version.field(label) if label in kept else version.fields(melted) if label == value_name else {}
    made(call, "reshape", Listed(fields), None, (version,))


def pivot(call: Call) -> None:
    """df.pivot(columns=..., index=..., values=...)."""
    arguments = (call.kwargs.get("index"), call.kwargs.get("columns"), call.kwargs.get("values"))
    index, columns, values = [_given(argument) for argument in arguments]
    if index is None:
        # Rows are then the entries of the index.
        index = list(call.before.index_names)
    _pivoted(call, index, columns, values, IDENTITY, drops_empty=False)


def pivot_table(call: Call) -> None:
    """df.pivot_table(values, index, columns, aggfunc)."""
    values, index, columns = call.argument(0, "values"), call.argument(1, "index"), call.argument(2, "columns")
    function = call.argument(3, "aggfunc", "mean")
    if isinstance(function, str) and function == "size":
        # A count of rows, of which no column is the source.
        values = []
    elif isinstance(function, dict) and values is None:
        values = list(function)
    step = AGGREGATION | (OPAQUE if has_function(function) else 0)
    _pivoted(call, index, columns, values, step, drops_empty=bool(call.argument(6, "dropna", default=True)))


def _given(argument: Any) -> Any:
    # pandas marks an argument that was not given with an object of its own.
    return None if "NoDefault" in type(argument).__name__ else argument


def _pivoted(call: Call, index: Any, columns: Any, values: Any, step: int, *, drops_empty: bool) -> None:
    version, result = call.before, call.result
    if not isinstance(result, pd.DataFrame):
        spread(call, version.fields(None, step))
        return
    rows_by, columns_by = key_list(index), key_list(columns)
    keys = [frame_key(version, key) for key in (*rows_by, *columns_by)]
    names = dict(keys)
    measured = as_labels(values) if values is not None else [label for label in version.columns if label not in names]
    rows = union(*[used_for(key, GROUP_BY) for _, key in keys])
    if drops_empty:
        # Rows and columns that aggregate to nothing but NaN are dropped.
        rows = union(rows, *[used_for(version.field(label), FILTER) for label in measured if version.has(label)])
    fields: dict[Hashable, Provenance] = {}
    for name in index_names(result.index):
        fields[name] = names.get(name) or (version.field(name) if version.has(name) else {})
    for label in result.columns:
        fields[label] = through(version.fields(_measured(label, measured, columns_by, result)), step)
    made(call, "reshape", Listed(fields), rows, (version,))


def _measured(label: Any, measured: list[Any], columns_by: list[Any], result: Any) -> list[Any]:
    """The values behind one column of a pivot: those its label mentions, if it mentions any."""
    if isinstance(label, tuple) and (not columns_by or result.columns.nlevels > len(columns_by)):
        return [one for one in measured if one in label] or measured
    if not columns_by and label in measured:
        return [label]
    return measured


def stack(call: Call) -> None:
    """df.stack(): the columns become an inner level."""
    version, result = call.before, call.result
    levels = {name: version.field(name) for name in version.index_names}
    if isinstance(result, pd.Series):
        mark_series(result, version.fields(), levels or None)
        return
    fields: dict[Hashable, Provenance] = dict(levels)
    for label in result.columns:
        behind = [one for one in version.columns if isinstance(one, tuple) and label in one] or list(version.columns)
        fields[label] = version.fields(behind)
    made(call, "reshape", Listed(fields), None, (version,))


def unstack(call: Call) -> None:
    """df.unstack(): a level becomes columns."""
    version, result = call.before, call.result
    if isinstance(result, pd.Series):
        mark_series(result, version.fields(), {name: version.field(name) for name in version.index_names} or None)
        return
    names = index_names(result.index)
    fields: dict[Hashable, Provenance] = {name: version.field(name) for name in names if version.has(name)}
    for label in result.columns:
        behind = [one for one in version.columns if isinstance(label, tuple) and (one == label[0] or one == label[:-1])]
        fields[label] = version.fields(behind or None)
    gone = [name for name in version.index_names if name not in names]
    made(call, "reshape", Listed(fields), version.fields(gone, GROUP_BY), (version,))


def explode(call: Call) -> None:
    """df.explode(column): lists become rows, the other columns repeat."""
    version: FrameVersion = call.before
    labels = as_labels(call.argument(0, "column"))
    repeats = version.fields(labels, FILTER)
    fields = {
        label: through(version.field(label), TRANSFORMATION)
        if label in labels
        else union(version.field(label), repeats)
        for label in version.labels()
    }
    made(call, "reshape", SameLabels(version, IDENTITY, fields), None, (version,))


def get_dummies(call: Call) -> None:
    """pd.get_dummies(data, columns=...): one column per value; a column of a similar name is no dummy."""
    data, result = call.argument(0, "data"), call.result
    if not isinstance(data, pd.DataFrame):
        spread(call, through(known(data), TRANSFORMATION))
        return
    version = version_of(data)
    encoded = as_labels(call.kwargs.get("columns")) or [label for label in data.columns if label not in result.columns]
    prefixes = _dummy_prefixes(encoded, call.argument(1, "prefix"), call.argument(2, "prefix_sep", "_"))
    fields: dict[Hashable, Provenance] = {}
    for label in result.columns:
        if version.has(label) and label not in encoded:
            fields[label] = version.field(label)
        else:
            fields[label] = version.fields(_dummy_sources(label, prefixes) or encoded, TRANSFORMATION)
    made(call, "transformation", Listed(fields), None, (version,))


def _dummy_prefixes(encoded: list[Any], prefix: Any, separator: str) -> dict[Any, str]:
    def own(position: int, label: Any) -> Any:
        if isinstance(prefix, str):
            return prefix
        if isinstance(prefix, dict):
            return prefix.get(label, label)
        return prefix[position] if prefix else label

    return {label: f"{own(position, label)}{separator}" for position, label in enumerate(encoded)}


def _dummy_sources(label: Hashable, prefixes: dict[Any, str]) -> list[Any]:
    fitting = [column for column, prefix in prefixes.items() if str(label).startswith(prefix)]
    return [max(fitting, key=lambda column: len(prefixes[column]))] if fitting else []


def crosstab(call: Call) -> None:
    """pd.crosstab(index, columns, values): counts, or an aggregate of `values`, per pair."""
    index, columns, values = call.argument(0, "index"), call.argument(1, "columns"), call.argument(2, "values")
    by_row = index if isinstance(index, list) else [index]
    by_column = columns if isinstance(columns, list) else [columns]
    rows = union(*[used_for(known(key), GROUP_BY) for key in (*by_row, *by_column)])
    measured = through(known(values), AGGREGATION) if values is not None else {}
    fields: dict[Hashable, Provenance] = dict.fromkeys(call.result.columns, measured)
    for name, key in zip(index_names(call.result.index), by_row, strict=False):
        fields[name] = known(key)
    made(call, "aggregation", Listed(fields), rows)


def on_frame(rule: Callable[[Call], None], parameter: str) -> Callable[[Call], None]:
    """A function of the module that does what the method does: its first argument is the frame."""

    def function_rule(call: Call) -> None:
        if parameter in call.kwargs:
            frame = call.kwargs[parameter]
            call.kwargs = {key: value for key, value in call.kwargs.items() if key != parameter}
        else:
            frame, *rest = call.args
            call.args = tuple(rest)
        call.subject, call.before = frame, version_of(frame)
        rule(call)

    return function_rule


def wide_to_long(call: Call) -> None:
    """pd.wide_to_long(df, stubnames, i, j): columns that start with a stub become one."""
    version = version_of(call.argument(0, "df"))
    stubs = as_labels(call.argument(1, "stubnames"))
    ending = re.escape(call.argument(4, "sep", "")) + call.argument(5, "suffix", r"\d+")
    fields: dict[Hashable, Provenance] = {}
    for label in (*index_names(call.result.index), *call.result.columns):
        if label in stubs:
            stub = re.compile(re.escape(str(label)) + ending)
            fields[label] = version.fields([one for one in version.columns if stub.fullmatch(str(one))])
        else:
            fields[label] = version.field(label) if version.has(label) else {}
    made(call, "reshape", Listed(fields), None, (version,))


RULES: dict[str, Callable[[Call], None]] = {
    "melt": melt,
    "pivot": pivot,
    "pivot_table": pivot_table,
    "stack": stack,
    "unstack": unstack,
    "explode": explode,
}
