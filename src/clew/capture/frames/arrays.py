"""Rules for NumPy functions that accept pandas objects and return plain arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.core.generic import NDFrame

from clew.capture.flags import AGGREGATION, CONDITIONAL, TRANSFORMATION
from clew.capture.frames.calls import Call, argument_provenance, assign_to_result, operand_provenance
from clew.capture.frames.elementwise import per_column_rule
from clew.capture.frames.hooks import patch_function, patch_method
from clew.capture.frames.state import current_version, lineage_or_empty, provenance_or_empty
from clew.capture.provenance import Provenance, apply_direct, as_indirect, attach_to_array, attach_to_series, union
from clew.capture.statements import record_read

if TYPE_CHECKING:
    from collections.abc import Callable

_ELEMENTWISE_FUNCTIONS = (
    "concatenate hstack vstack stack clip round isin digitize nan_to_num interp searchsorted repeat append"
).split()


def trace_np_where(call: Call) -> None:
    """Trace np.where(condition, x, y); without x and y it returns positions."""
    if len(call.args) < 3:
        trace_np_positions(call)
        return
    condition, x, y = call.args[:3]
    _assign_conditional(
        call,
        union(argument_provenance(x, call), argument_provenance(y, call)),
        argument_provenance(condition, call),
    )


def _assign_conditional(call: Call, values: Provenance, conditions: Provenance) -> None:
    provenance = union(apply_direct(values, TRANSFORMATION), as_indirect(conditions, CONDITIONAL))
    attach_to_array(call.result, provenance)
    if provenance:
        # Later arithmetic must depend on this result, not on the reads that led to it.
        record_read(call.caller, provenance)


def trace_np_positions(call: Call) -> None:
    """Trace np.nonzero(condition) and similar: one array of positions per dimension."""
    provenance = apply_direct(provenance_or_empty(call.args[0]), TRANSFORMATION)
    for result in call.result if isinstance(call.result, tuple) else (call.result,):
        call.result = result
        assign_to_result(call, provenance)


def trace_np_select(call: Call) -> None:
    """Trace np.select(conditions, choices, default)."""
    conditions, choices, default = (
        call.argument(0, "condlist"),
        call.argument(1, "choicelist"),
        call.argument(2, "default"),
    )
    # Each choice separately: the provenance of a mixed list does not include its untracked scalars.
    values = union(
        argument_provenance(choices, call), *[operand_provenance(choice, call.caller) for choice in (*choices, default)]
    )
    _assign_conditional(call, values, argument_provenance(conditions, call))


def np_function_rule(step: int) -> Callable[[Call], None]:
    """Build a rule for a function of all its arguments."""

    def rule(call: Call) -> None:
        provenance = apply_direct(union(*[argument_provenance(value, call) for value in call.values()]), step)
        if not provenance or isinstance(call.result, pd.DataFrame):
            return
        if isinstance(call.result, pd.Series):
            lineages = [lineage_or_empty(value) for value in call.values() if isinstance(value, pd.Series)]
            attach_to_series(call.result, provenance, lineages[0].index if lineages else None)
        else:
            assign_to_result(call, provenance)

    return rule


def trace_np_column_stack(call: Call) -> None:
    """Trace np.column_stack(columns): each argument is one column of the result."""
    arrays = call.argument(0, "tup")
    if not isinstance(arrays, (list, tuple)) or any(np.ndim(array) != 1 for array in arrays):
        np_function_rule(TRANSFORMATION)(call)
        return
    columns = [apply_direct(argument_provenance(array, call), TRANSFORMATION) for array in arrays]
    attach_to_array(call.result, union(*columns), columns)


def trace_ufunc(call: Call) -> None:
    """Trace np.log(series), np.maximum(frame, 0): elementwise, or a reduction by `np.add.reduce`."""
    if isinstance(call.receiver, pd.DataFrame):
        call.pre_state = current_version(call.receiver)
        call.args = call.args[2:]
        per_column_rule(TRANSFORMATION)(call)
        return
    lineages = [lineage_or_empty(value) for value in call.args if isinstance(value, pd.Series)]
    step = AGGREGATION if call.args[1] == "reduce" else TRANSFORMATION
    provenance = apply_direct(union(*[provenance_or_empty(value) for value in call.values()]), step)
    rows = union(*[lineage.rows for lineage in lineages]) or None
    for result in call.result if isinstance(call.result, tuple) else (call.result,):
        if isinstance(result, pd.Series):
            attach_to_series(result, provenance, lineages[0].index if lineages else None, rows)
        else:
            call.result = result
            assign_to_result(call, provenance)


def patch_numpy() -> None:
    """Patch the NumPy functions that notebooks call with columns."""
    # One wrapper for both classes: pandas compares their `__array_ufunc__` to order the operands.
    patch_method(NDFrame, "__array_ufunc__", trace_ufunc)
    patch_function(np, "where", trace_np_where)
    patch_function(np, "select", trace_np_select)
    patch_function(np, "column_stack", trace_np_column_stack)
    for name in ("nonzero", "flatnonzero", "argwhere", "argsort"):
        patch_function(np, name, trace_np_positions)
    for name in _ELEMENTWISE_FUNCTIONS:
        patch_function(np, name, np_function_rule(TRANSFORMATION))
    for name in ("dot", "percentile", "average"):
        patch_function(np, name, np_function_rule(AGGREGATION))


__all__: list[Any] = ["patch_numpy"]
