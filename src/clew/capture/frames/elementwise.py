"""Rules for operations that compute each column of the result from the column of that label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clew.capture.flags import AGGREGATION, IDENTITY, JOIN, OPAQUE, TRANSFORMATION
from clew.capture.frames.calls import Call, brought, changed, computed_scalar, has_left, made, spread
from clew.capture.frames.functions import is_opaque, used_outside
from clew.capture.frames.operators import ARITHMETIC_METHODS, OPERATORS
from clew.capture.frames.selection import entry_of, of_column
from clew.capture.frames.series import is_aligned
from clew.capture.frames.state import is_scalar, known, provenance_of, version_of
from clew.capture.provenance import Provenance, by_position, scalar_provenance, through, union, used_for
from clew.capture.records import SameLabels
from clew.capture.versions import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from clew.capture.versions import FrameVersion


def columnwise(step: int) -> Callable[[Call], None]:
    """Every column through the same step, together with what the arguments bring."""

    def rule(call: Call) -> None:
        version: FrameVersion = call.before
        if call.name in _BY_ROW and _is_by_row(call):
            _along_rows(call)
            return
        operands = [value for value in call.values() if _brings_provenance(value)]
        computed = union(*[_computed(value, call) for value in call.values()])
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
            rows = rows_aligned(call, edges, parents) if parents and version.index_names else None
            made(call, "transformation", edges, rows, (version, *parents))

    return rule


# Where the axis stands among the arguments; methods that take it by name alone have no place for it.
_BY_ROW = {"rank": 0, "cumsum": 0, "cumprod": 0, "cummax": 0, "cummin": 0, "diff": 1, "transform": 1, "shift": 2}
_BY_ROW |= dict.fromkeys(("ffill", "bfill", "pct_change", "interpolate"), 99)
_UP_TO_ITSELF = ("ffill", "cumsum", "cumprod", "cummax", "cummin")
_WITH_ANOTHER = ("diff", "pct_change", "shift")


def _is_by_row(call: Call) -> bool:
    return call.argument(_BY_ROW[call.name], "axis", 0) in (1, "columns")


def _along_rows(call: Call) -> None:
    """cumsum, ffill, shift with axis=1: a column comes from others in its row."""
    version: FrameVersion = call.before
    labels = listed(version.columns)
    opaque = OPAQUE if is_opaque(call.argument(0, "func")) else 0
    sources = [
        version.fields(_met_in_row(call, labels, place), TRANSFORMATION | opaque) for place in range(len(labels))
    ]
    edges = SameLabels(version, TRANSFORMATION | opaque, by_position(labels, sources))
    if call.is_in_place:
        changed(call, "transformation", edges)
    else:
        made(call, "transformation", edges, None, (version,))


def _met_in_row(call: Call, labels: list[Hashable], place: int) -> list[Hashable]:
    """The columns that the one at a place is computed from."""
    if call.name in _UP_TO_ITSELF:
        return labels[: place + 1]
    if call.name == "bfill":
        return labels[place:]
    periods = call.argument(0, "periods", 1)
    if call.name not in _WITH_ANOTHER or not isinstance(periods, int):
        return labels
    places = {place - periods} if call.name == "shift" else {place - periods, place}
    return [labels[one] for one in sorted(places) if 0 <= one < len(labels)]


def rows_aligned(call: Call, edges: SameLabels, others: list[FrameVersion]) -> Provenance | None:
    """Rows of frames that were brought together by their labels: levels come from all of them."""
    if not is_aligned(call.subject, call.result):
        return None
    sides = [edges.source, *others]
    levels = {name: union(*[side.field(name) for side in sides if side.has(name)]) for name in edges.source.index_names}
    edges.changed = {**levels, **(edges.changed or {})}
    return union(*[used_for(found, JOIN) for found in levels.values()])


def _computed(value: Any, call: Call) -> Provenance:
    """What an operand was computed from outside of pandas: a single value, an array, or what a function looks into."""
    if is_scalar(value):
        return computed_scalar(value, call.frame) if scalar_provenance(value) is None else {}
    return used_outside(value, call.frame) if callable(value) else brought(value, call) if has_left(value) else {}


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
