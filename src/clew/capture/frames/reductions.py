"""Rules for reductions of columns, and for functions applied to a whole frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from clew.capture.flags import AGGREGATION, GROUP_BY, OPAQUE, TRANSFORMATION
from clew.capture.frames.calls import (
    Call,
    argument_provenance,
    assign_to_result,
    record_created,
    record_extracted_scalar,
)
from clew.capture.frames.functions import closure_provenance, is_opaque, referenced_columns, user_functions
from clew.capture.frames.state import as_labels, index_names, provenance_or_empty
from clew.capture.provenance import Provenance, apply_direct, attach_to_array, attach_to_series, union
from clew.capture.records import ExplicitEdges, IdentityEdges

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from clew.capture.versions import FrameVersion

_COLUMN_AXES = (1, "columns")


def trace_reduction(call: Call) -> None:
    """Trace sum, mean, ...: an aggregation along axis 0, a transformation along axis 1."""
    version: FrameVersion = call.pre_state
    if isinstance(call.result, pd.DataFrame) and _is_axis1(call):
        assign_to_result(call, version.fields(None, TRANSFORMATION), "aggregation")
    elif isinstance(call.result, pd.DataFrame):
        record_created(call, "aggregation", IdentityEdges(version, AGGREGATION), None, (version,))
    elif isinstance(call.result, pd.Series) and _is_axis1(call):
        labels = list(call.receiver.select_dtypes("number").columns) if call.kwargs.get("numeric_only") else None
        attach_to_series(call.result, version.fields(labels, TRANSFORMATION), _index_levels(version))
    elif isinstance(call.result, pd.Series):
        labels = [label for label in call.result.index if version.has(label)]
        attach_to_series(call.result, version.fields(labels, AGGREGATION))
    else:
        record_extracted_scalar(call.caller, call.result, version.fields(None, AGGREGATION))


def _is_axis1(call: Call) -> bool:
    position = 1 if call.name in ("agg", "aggregate", "apply", "quantile") else 0
    axis = call.argument(position, "axis", 0)
    return isinstance(axis, (int, str)) and not isinstance(axis, bool) and axis in _COLUMN_AXES


def _index_levels(version: FrameVersion) -> dict[Hashable, Provenance] | None:
    return {name: version.field(name) for name in version.index_names} or None


def trace_agg(call: Call) -> None:
    """Trace df.agg(...), including named aggregations, whose result has one row per name."""
    version: FrameVersion = call.pre_state
    function = call.argument(0, "func")
    functions = user_functions(call.values())
    opaque = OPAQUE if functions else 0
    closure = union(*[closure_provenance(user_function, call.caller) for user_function in functions])
    if isinstance(call.result, pd.DataFrame):
        fields = None
        if function is None:
            sources = [aggregation[0] for aggregation in call.kwargs.values() if isinstance(aggregation, tuple)]
            fields = {label: version.field(label) for label in sources if version.has(label)}
            fields = {label: apply_direct(provenance, AGGREGATION) for label, provenance in fields.items()}
        step = TRANSFORMATION if _is_axis1(call) else AGGREGATION
        fields = fields or _fields_with_closure(call, closure, step | opaque)
        record_created(call, "aggregation", IdentityEdges(version, step | opaque, fields), None, (version,))
    elif isinstance(call.result, pd.Series) and _is_axis1(call):
        attach_to_series(
            call.result, union(version.fields(None, TRANSFORMATION | opaque), closure), _index_levels(version)
        )
    elif isinstance(call.result, pd.Series):
        labels = [label for label in call.result.index if version.has(label)]
        attach_to_series(call.result, union(version.fields(labels, AGGREGATION | opaque), closure))
    else:
        record_extracted_scalar(call.caller, call.result, version.fields(None, AGGREGATION | opaque))


def trace_describe(call: Call) -> None:
    """Trace df.describe()."""
    record_created(call, "aggregation", IdentityEdges(call.pre_state, AGGREGATION), None, (call.pre_state,))


def all_columns_rule(step: int) -> Callable[[Call], None]:
    """Build a rule for corr, cov, dot, transpose: every value may come from every column."""

    def rule(call: Call) -> None:
        version: FrameVersion = call.pre_state
        operands = [provenance_or_empty(value) for value in call.values()]
        assign_to_result(
            call,
            apply_direct(union(version.fields(), *operands), step),
            "reshape" if step == TRANSFORMATION else "aggregation",
        )

    return rule


def trace_to_numpy(call: Call) -> None:
    """Trace df.to_numpy(), df.values: columns retain their positions."""
    version: FrameVersion = call.pre_state
    attach_to_array(call.result, version.fields(), version)


def trace_apply(call: Call) -> None:
    """Trace df.apply(function): from the referenced columns along axis 1, column by column along axis 0."""
    version: FrameVersion = call.pre_state
    function = call.argument(0, "func")
    opaque = OPAQUE if is_opaque(function) else 0
    step = TRANSFORMATION | opaque
    closure = union(
        closure_provenance(function, call.caller),
        *[apply_direct(argument_provenance(value, call), step) for value in call.values()],
    )
    if _is_axis1(call):
        labels = referenced_columns(function, version) or None
        provenance = union(version.fields(labels, step), closure)
        if isinstance(call.result, pd.Series):
            attach_to_series(call.result, provenance, _index_levels(version))
        elif isinstance(call.result, pd.DataFrame):
            fields: dict[Hashable, Provenance] = dict.fromkeys(call.result.columns, provenance)
            fields.update({name: version.field(name) for name in index_names(call.result.index) if version.has(name)})
            record_created(call, "transformation", ExplicitEdges(fields), None, (version,))
    elif isinstance(call.result, pd.DataFrame):
        record_created(
            call,
            "transformation",
            IdentityEdges(version, step, _fields_with_closure(call, closure, step)),
            None,
            (version,),
        )
    elif isinstance(call.result, pd.Series):
        labels = [label for label in call.result.index if version.has(label)]
        attach_to_series(call.result, union(version.fields(labels or None, AGGREGATION | opaque), closure))


def _fields_with_closure(call: Call, closure: Provenance, step: int) -> dict[Hashable, Provenance] | None:
    """Return the provenance of every result column merged with the closure of the function."""
    if not closure:
        return None
    version: FrameVersion = call.pre_state
    return {
        label: union(apply_direct(version.field(label), step) if version.has(label) else None, closure)
        for label in call.result.columns
    }


def trace_value_counts(call: Call) -> None:
    """Trace df.value_counts(subset): a count has no DIRECT source; the values become its index."""
    version: FrameVersion = call.pre_state
    labels: list[Any] = as_labels(call.argument(0, "subset")) or list(version.columns)
    attach_to_series(
        call.result, {}, {label: version.field(label) for label in labels}, version.fields(labels, GROUP_BY)
    )


REDUCTION_METHODS = (
    "sum mean median min max std var sem prod product count nunique any all skew kurt kurtosis quantile "
    "idxmax idxmin mode"
).split()

RULES: dict[str, Callable[[Call], None]] = {
    **dict.fromkeys(REDUCTION_METHODS, trace_reduction),
    **dict.fromkeys(("agg", "aggregate"), trace_agg),
    **dict.fromkeys(("corr", "cov", "corrwith", "dot", "__matmul__", "__rmatmul__"), all_columns_rule(AGGREGATION)),
    **dict.fromkeys(("transpose",), all_columns_rule(TRANSFORMATION)),
    **dict.fromkeys(("to_numpy", "__array__"), trace_to_numpy),
    "describe": trace_describe,
    "apply": trace_apply,
    "value_counts": trace_value_counts,
}
