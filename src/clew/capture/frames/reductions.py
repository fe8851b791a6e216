"""Rules for methods that reduce columns, and for functions applied to a whole frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from clew.capture.flags import AGGREGATION, GROUP_BY, OPAQUE, TRANSFORMATION
from clew.capture.frames.calls import Call, brought, made, spread, took
from clew.capture.frames.functions import columns_named_in, functions_in, is_opaque, used_outside
from clew.capture.frames.state import as_labels, index_names, known
from clew.capture.provenance import Provenance, mark_series, remember_array, through, union
from clew.capture.records import Listed, SameLabels

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from clew.capture.versions import FrameVersion

_BY_ROW = (1, "columns")


def reduced(call: Call) -> None:
    """sum, mean, ...: down the columns an aggregation, along the rows a transformation."""
    version: FrameVersion = call.before
    if isinstance(call.result, pd.DataFrame) and _is_by_row(call):
        spread(call, version.fields(None, TRANSFORMATION), "aggregation")
    elif isinstance(call.result, pd.DataFrame):
        made(call, "aggregation", SameLabels(version, AGGREGATION), None, (version,))
    elif isinstance(call.result, pd.Series) and _is_by_row(call):
        labels = list(call.subject.select_dtypes("number").columns) if call.kwargs.get("numeric_only") else None
        mark_series(call.result, version.fields(labels, TRANSFORMATION), _levels(version))
    elif isinstance(call.result, pd.Series):
        labels = [label for label in call.result.index if version.has(label)]
        mark_series(call.result, version.fields(labels, AGGREGATION))
    else:
        took(call.frame, call.result, version.fields(None, AGGREGATION))


def _is_by_row(call: Call) -> bool:
    position = 1 if call.name in ("agg", "aggregate", "apply", "quantile") else 0
    axis = call.argument(position, "axis", 0)
    return isinstance(axis, (int, str)) and not isinstance(axis, bool) and axis in _BY_ROW


def _levels(version: FrameVersion) -> dict[Hashable, Provenance] | None:
    return {name: version.field(name) for name in version.index_names} or None


def aggregated(call: Call) -> None:
    """df.agg(...), also with named aggregations, whose result has one row per name."""
    version: FrameVersion = call.before
    function = call.argument(0, "func")
    functions = functions_in(call.values())
    opaque = OPAQUE if functions else 0
    beside = union(*[used_outside(one, call.frame) for one in functions])
    if isinstance(call.result, pd.DataFrame):
        fields = None
        if function is None:
            sources = [given[0] for given in call.kwargs.values() if isinstance(given, tuple)]
            fields = {label: version.field(label) for label in sources if version.has(label)}
            fields = {label: through(found, AGGREGATION) for label, found in fields.items()}
        step = TRANSFORMATION if _is_by_row(call) else AGGREGATION
        fields = fields or _each(call, beside, step | opaque)
        made(call, "aggregation", SameLabels(version, step | opaque, fields), None, (version,))
    elif isinstance(call.result, pd.Series) and _is_by_row(call):
        mark_series(call.result, union(version.fields(None, TRANSFORMATION | opaque), beside), _levels(version))
    elif isinstance(call.result, pd.Series):
        labels = [label for label in call.result.index if version.has(label)]
        mark_series(call.result, union(version.fields(labels, AGGREGATION | opaque), beside))
    else:
        took(call.frame, call.result, version.fields(None, AGGREGATION | opaque))


def described(call: Call) -> None:
    """df.describe()."""
    made(call, "aggregation", SameLabels(call.before, AGGREGATION), None, (call.before,))


def from_all_columns(step: int) -> Callable[[Call], None]:
    """Every value of the result may come from every column: corr, cov, dot, transpose, to_numpy."""

    def rule(call: Call) -> None:
        version: FrameVersion = call.before
        others = [known(value) for value in call.values()]
        spread(
            call,
            through(union(version.fields(), *others), step),
            "reshape" if step == TRANSFORMATION else "aggregation",
        )

    return rule


def as_array(call: Call) -> None:
    """df.to_numpy(), df.values: the columns keep their places."""
    version: FrameVersion = call.before
    remember_array(call.result, version.fields(), version)


def applied(call: Call) -> None:
    """df.apply(function): along the rows from the columns it names, down the columns label by label."""
    version: FrameVersion = call.before
    function = call.argument(0, "func")
    opaque = OPAQUE if is_opaque(function) else 0
    step = TRANSFORMATION | opaque
    beside = union(
        used_outside(function, call.frame), *[through(brought(value, call), step) for value in call.values()]
    )
    if _is_by_row(call):
        labels = columns_named_in(function, version) or None
        provenance = union(version.fields(labels, step), beside)
        if isinstance(call.result, pd.Series):
            mark_series(call.result, provenance, _levels(version))
        elif isinstance(call.result, pd.DataFrame):
            fields: dict[Hashable, Provenance] = dict.fromkeys(call.result.columns, provenance)
            fields.update({name: version.field(name) for name in index_names(call.result.index) if version.has(name)})
            made(call, "transformation", Listed(fields), None, (version,))
    elif isinstance(call.result, pd.DataFrame):
        made(call, "transformation", SameLabels(version, step, _each(call, beside, step)), None, (version,))
    elif isinstance(call.result, pd.Series):
        labels = [label for label in call.result.index if version.has(label)]
        mark_series(call.result, union(version.fields(labels or None, AGGREGATION | opaque), beside))


def _each(call: Call, beside: Provenance, step: int) -> dict[Hashable, Provenance] | None:
    """Every column of the result with what else a function looks into."""
    if not beside:
        return None
    version: FrameVersion = call.before
    return {
        label: union(through(version.field(label), step) if version.has(label) else None, beside)
        for label in call.result.columns
    }


def counted(call: Call) -> None:
    """df.value_counts(subset): a count has no direct source; the values are its index."""
    version: FrameVersion = call.before
    labels: list[Any] = as_labels(call.argument(0, "subset")) or list(version.columns)
    mark_series(call.result, {}, {label: version.field(label) for label in labels}, version.fields(labels, GROUP_BY))


REDUCTIONS = (
    "sum mean median min max std var sem prod product count nunique any all skew kurt kurtosis quantile "
    "idxmax idxmin mode"
).split()

RULES: dict[str, Callable[[Call], None]] = {
    **dict.fromkeys(REDUCTIONS, reduced),
    **dict.fromkeys(("agg", "aggregate"), aggregated),
    **dict.fromkeys(("corr", "cov", "corrwith", "dot", "__matmul__", "__rmatmul__"), from_all_columns(AGGREGATION)),
    **dict.fromkeys(("transpose",), from_all_columns(TRANSFORMATION)),
    **dict.fromkeys(("to_numpy", "__array__"), as_array),
    "describe": described,
    "apply": applied,
    "value_counts": counted,
}
