"""Rules for operations that compute each column of the result from the column of that label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clew.capture.flags import AGGREGATION, IDENTITY, JOIN, OPAQUE, TRANSFORMATION
from clew.capture.frames.calls import Call, changed, computed_scalar, made, spread
from clew.capture.frames.functions import is_opaque
from clew.capture.frames.operators import ARITHMETIC_METHODS, OPERATORS
from clew.capture.frames.selection import entry_of, of_column
from clew.capture.frames.series import is_aligned
from clew.capture.frames.state import is_scalar, known, provenance_of, version_of
from clew.capture.provenance import Provenance, scalar_provenance, through, union, used_for
from clew.capture.records import SameLabels

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from clew.capture.versions import FrameVersion


def columnwise(step: int) -> Callable[[Call], None]:
    """Every column through the same step, together with what the arguments bring."""

    def rule(call: Call) -> None:
        version: FrameVersion = call.before
        operands = [value for value in call.values() if _brings_provenance(value)]
        plain = [value for value in call.values() if is_scalar(value) and scalar_provenance(value) is None]
        computed = union(*[computed_scalar(value, call.frame) for value in plain])
        target = call.target
        if not isinstance(target, pd.DataFrame):
            spread(call, through(union(version.fields(), *map(known, operands), computed), step))
            return
        fields = None
        if operands or computed:
            fields = _with_operands(version, target.columns, operands, step, _meets(call), computed)
        edges = SameLabels(version, step, fields)
        parents = [version_of(value) for value in operands if isinstance(value, pd.DataFrame)]
        if call.is_in_place or call.result is call.subject:
            changed(call, "transformation", edges)
        else:
            rows = _aligned(call, edges, parents) if parents and version.index_names else None
            made(call, "transformation", edges, rows, (version, *parents))

    return rule


def _aligned(call: Call, edges: SameLabels, others: list[FrameVersion]) -> Provenance | None:
    """Rows of frames that were brought together by their labels: levels come from all of them."""
    if not is_aligned(call.subject, call.result):
        return None
    sides = [edges.source, *others]
    levels = {name: union(*[side.field(name) for side in sides if side.has(name)]) for name in edges.source.index_names}
    edges.changed = {**levels, **(edges.changed or {})}
    return union(*[used_for(found, JOIN) for found in levels.values()])


def _brings_provenance(value: Any) -> bool:
    if isinstance(value, (pd.DataFrame, pd.Series, np.ndarray, list, dict)):
        return isinstance(value, (pd.DataFrame, dict)) or provenance_of(value) is not None
    return scalar_provenance(value) is not None


def _meets(call: Call) -> Callable[[Any, Hashable], Provenance]:
    """How an operand meets a column: a Series by its entry of that label, unless it is laid along the rows."""
    is_method_by_label = call.name in ARITHMETIC_METHODS and call.argument(1, "axis", 1) in (1, "columns")
    by_label = call.name in OPERATORS or is_method_by_label
    return entry_of if by_label else of_column


def _with_operands(
    version: FrameVersion,
    labels: Any,
    operands: list[Any],
    step: int,
    meets: Callable[[Any, Hashable], Provenance],
    computed: Provenance,
) -> dict[Hashable, Provenance]:
    fields = {}
    for label in labels:
        own = version.field(label) if version.has(label) else {}
        fields[label] = through(union(own, *[meets(operand, label) for operand in operands], computed), step)
    return fields


def named_columns(position: int, name: str) -> Callable[[Call], None]:
    """astype, replace, round with a mapping: only the named columns are transformed."""
    every = columnwise(TRANSFORMATION)

    def rule(call: Call) -> None:
        version: FrameVersion = call.before
        given = call.argument(position, name)
        if not isinstance(given, dict) or not given or not all(version.has(label) for label in given):
            every(call)
            return
        fields = {
            label: through(union(version.field(label), known(value)), TRANSFORMATION) for label, value in given.items()
        }
        edges = SameLabels(version, IDENTITY, fields)
        if call.is_in_place:
            changed(call, "transformation", edges)
        else:
            made(call, "transformation", edges, None, (version,))

    return rule


def index_moved(call: Call) -> None:
    """tz_convert, to_period and the like: the index is computed anew, the columns stay."""
    version: FrameVersion = call.before
    levels = {name: through(version.field(name), TRANSFORMATION) for name in version.index_names}
    made(call, "transformation", SameLabels(version, IDENTITY, levels), None, (version,))


def shifted(call: Call) -> None:
    """df.shift(periods): rows move, or with `freq` the index does."""
    if call.argument(1, "freq") is None:
        columnwise(TRANSFORMATION)(call)
    else:
        index_moved(call)


def mapped(call: Call) -> None:
    """df.map(function), df.transform(function): each column by a function whose inside is unknown."""
    columnwise(TRANSFORMATION | (OPAQUE if is_opaque(call.argument(0, "func")) else 0))(call)


def compared(call: Call) -> None:
    """df.compare(other): the columns are pairs of (label, self or other)."""
    version, other = call.before, version_of(call.argument(0, "other"))
    fields: dict[Hashable, Provenance] = {}
    for label in call.result.columns:
        column = label[0] if isinstance(label, tuple) else label
        fields[label] = union(
            *[through(one.field(column), TRANSFORMATION) for one in (version, other) if one.has(column)]
        )
    made(call, "transformation", SameLabels(version, TRANSFORMATION, fields), None, (version, other))


_METHODS = (
    "add radd sub rsub subtract mul rmul multiply div rdiv divide truediv rtruediv floordiv rfloordiv mod rmod "
    "pow rpow eq ne lt le gt ge"
).split()
_METHODS = (
    "abs bfill clip convert_dtypes diff ffill interpolate isin isna isnull notna notnull pct_change rank combine"
).split()

RULES: dict[str, Callable[[Call], None]] = {
    **dict.fromkeys((*_METHODS, *ARITHMETIC_METHODS, *OPERATORS), columnwise(TRANSFORMATION)),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), columnwise(AGGREGATION)),
    **dict.fromkeys(("to_period", "to_timestamp", "tz_convert", "tz_localize"), index_moved),
    "shift": shifted,
    "map": mapped,
    "transform": mapped,
    "compare": compared,
    "astype": named_columns(0, "dtype"),
    "replace": named_columns(0, "to_replace"),
    "round": named_columns(0, "decimals"),
}
