"""Rules for NumPy functions that take pandas objects and give back plain arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.core.generic import NDFrame

from clew.capture.flags import AGGREGATION, CONDITIONAL, TRANSFORMATION
from clew.capture.frames.calls import Call, brought, known_here, spread
from clew.capture.frames.elementwise import columnwise
from clew.capture.frames.hooks import hook_function, hook_method
from clew.capture.frames.state import known, series_parts, version_of
from clew.capture.provenance import Provenance, mark_series, remember_array, through, union, used_for
from clew.capture.statements import note_read

if TYPE_CHECKING:
    from collections.abc import Callable

_ELEMENTWISE = (
    "concatenate hstack vstack stack clip round isin digitize nan_to_num interp searchsorted repeat append"
).split()


def where(call: Call) -> None:
    """np.where(condition, x, y); with the condition alone it gives positions."""
    if len(call.args) < 3:
        positions(call)
        return
    condition, one, other = call.args[:3]
    _decided(call, union(brought(one, call), brought(other, call)), brought(condition, call))


def _decided(call: Call, values: Provenance, conditions: Provenance) -> None:
    found = union(through(values, TRANSFORMATION), used_for(conditions, CONDITIONAL))
    remember_array(call.result, found)
    if found:
        # So that plain arithmetic goes on with the decision, not with what was read for it.
        note_read(call.frame, found)


def positions(call: Call) -> None:
    """np.nonzero(condition) and its like: arrays of positions, one for each dimension."""
    provenance = through(known(call.args[0]), TRANSFORMATION)
    for result in call.result if isinstance(call.result, tuple) else (call.result,):
        call.result = result
        spread(call, provenance)


def select(call: Call) -> None:
    """np.select(conditions, choices, default)."""
    conditions, choices, default = (
        call.argument(0, "condlist"),
        call.argument(1, "choicelist"),
        call.argument(2, "default"),
    )
    # Each for itself: a list of one Series and one single value tells nothing of the value.
    values = union(brought(choices, call), *[known_here(choice, call.frame) for choice in (*choices, default)])
    _decided(call, values, brought(conditions, call))


def derived(step: int) -> Callable[[Call], None]:
    """A function whose result comes from all its arguments."""

    def rule(call: Call) -> None:
        provenance = through(union(*[brought(value, call) for value in call.values()]), step)
        if not provenance or isinstance(call.result, pd.DataFrame):
            return
        if isinstance(call.result, pd.Series):
            states = [series_parts(value) for value in call.values() if isinstance(value, pd.Series)]
            mark_series(call.result, provenance, states[0].index if states else None)
        else:
            spread(call, provenance)

    return rule


def columns_stacked(call: Call) -> None:
    """np.column_stack(columns): each of them is a column of the result."""
    given = call.argument(0, "tup")
    if not isinstance(given, (list, tuple)) or any(np.ndim(one) != 1 for one in given):
        derived(TRANSFORMATION)(call)
        return
    columns = [through(brought(one, call), TRANSFORMATION) for one in given]
    remember_array(call.result, union(*columns), columns)


def ufunc(call: Call) -> None:
    """np.log(series), np.maximum(frame, 0): elementwise, or a reduction by `np.add.reduce`."""
    if isinstance(call.subject, pd.DataFrame):
        call.before = version_of(call.subject)
        call.args = call.args[2:]
        columnwise(TRANSFORMATION)(call)
        return
    states = [series_parts(value) for value in call.args if isinstance(value, pd.Series)]
    step = AGGREGATION if call.args[1] == "reduce" else TRANSFORMATION
    provenance = through(union(*[known(value) for value in call.values()]), step)
    rows = union(*[state.rows for state in states]) or None
    for result in call.result if isinstance(call.result, tuple) else (call.result,):
        if isinstance(result, pd.Series):
            mark_series(result, provenance, states[0].index if states else None, rows)
        else:
            call.result = result
            spread(call, provenance)


def hook_arrays() -> None:
    """Look on at the NumPy functions that notebooks feed with columns."""
    # One wrapper for both classes: pandas compares theirs to decide which of two operands goes first.
    hook_method(NDFrame, "__array_ufunc__", ufunc)
    hook_function(np, "where", where)
    hook_function(np, "select", select)
    hook_function(np, "column_stack", columns_stacked)
    for name in ("nonzero", "flatnonzero", "argwhere", "argsort"):
        hook_function(np, name, positions)
    for name in _ELEMENTWISE:
        hook_function(np, name, derived(TRANSFORMATION))
    for name in ("dot", "percentile", "average"):
        hook_function(np, name, derived(AGGREGATION))


__all__: list[Any] = ["hook_arrays"]
