"""Rules for methods of Series that work on its labels, or make labels of its values: reindex, value_counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from clew.capture.flags import GROUP_BY, JOIN, SORT, TRANSFORMATION
from clew.capture.frames.calls import Call, made
from clew.capture.frames.series import framed, kind_of, mark_result, origin
from clew.capture.frames.state import (
    given_levels,
    index_names,
    known,
    levels_by_place,
    levels_named,
    series_parts,
)
from clew.capture.provenance import Provenance, SeriesState, mark_series, through, union, used_for
from clew.capture.records import Listed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


def axis_renamed(call: Call) -> None:
    """Series.rename_axis: the levels keep their places and get other names."""
    state = call.before
    if isinstance(call.result, pd.Series):
        levels = levels_by_place(state.index or {}, index_names(call.result.index))
        mark_series(call.result, state.provenance, levels or None, state.rows)


def index_moved(call: Call) -> None:
    """Series.tz_convert, Series.to_period and the like: the index is computed anew, the values stay."""
    state = call.before
    levels = {name: through(found, TRANSFORMATION) for name, found in (state.index or {}).items()}
    mark_series(call.result, state.provenance, levels or None, state.rows)


def shifted(call: Call) -> None:
    """Series.shift(periods): values move, or with `freq` the index does."""
    state = call.before
    if call.argument(1, "freq") is not None:
        index_moved(call)
    elif isinstance(call.result, pd.Series):
        mark_series(call.result, through(state.provenance, TRANSFORMATION), state.index, state.rows)
    else:
        framed(call, SeriesState(through(state.provenance, TRANSFORMATION), state.index, state.rows))


def sorted_by_index(call: Call) -> None:
    """Series.sort_index(level=...): ordered by the named levels."""
    state, levels = call.before, call.before.index or {}
    names = levels_named(call.subject, call.kwargs.get("level")) or levels
    rows = union(state.rows, *[used_for(levels.get(name), SORT) for name in names])
    mark_result(call, state.provenance, state.index, rows or None)


def reindexed(call: Call) -> None:
    """Series.reindex: values are looked up by labels, as `map` does."""
    state, labels, result = call.before, call.argument(0, "index"), call.result
    wanted = known(labels)
    if not wanted:
        mark_series(result, state.provenance, state.index, state.rows)
        return
    rows = union(state.rows, *[used_for(found, JOIN) for found in (wanted, *(state.index or {}).values())])
    mark_series(result, state.provenance, given_levels(labels, index_names(result.index)) or None, rows)


def aligned(call: Call) -> None:
    """series.align(other): both come back with the same index."""
    for source, result in zip((call.subject, call.argument(0, "other")), call.result, strict=True):
        if isinstance(source, pd.Series):
            state = series_parts(source)
            mark_series(result, state.provenance, state.index, state.rows)


def reset_index(call: Call) -> None:
    """Series.reset_index: the named levels become columns."""
    state, result = call.before, call.result
    if isinstance(result, pd.DataFrame):
        names = index_names(call.subject.index)
        found = levels_by_place(state.index or {}, names)
        fields = {label: found.get(label, {}) for label in (*result.columns, *names)}
        fields[result.columns[-1]] = state.provenance
        made(call, kind_of(state), Listed(fields), state.rows, origin(state))
    else:
        mark_result(call, state.provenance, None, state.rows)


def unstacked(call: Call) -> None:
    """Series.unstack: one level becomes the columns, the others stay."""
    state, result = call.before, call.result
    if not isinstance(result, pd.DataFrame):
        return
    names = index_names(result.index)
    spread_level = union(
        *[used_for(found, GROUP_BY) for level, found in (state.index or {}).items() if level not in names]
    )
    fields: dict[Hashable, Provenance] = dict.fromkeys(result.columns, state.provenance)
    fields.update({name: (state.index or {}).get(name, {}) for name in names})
    made(call, "reshape", Listed(fields), union(state.rows, spread_level))


def value_counts(call: Call) -> None:
    """Series.value_counts: a count has no direct source; the values are its index."""
    state = call.before
    rows = union(state.rows, used_for(state.provenance, GROUP_BY))
    mark_series(call.result, {}, {call.subject.name: state.provenance}, rows)


RULES: dict[str, Callable[[Call], None]] = {
    "rename_axis": axis_renamed,
    "reindex": reindexed,
    "sort_index": sorted_by_index,
    "shift": shifted,
    **dict.fromkeys(("to_period", "to_timestamp", "tz_convert", "tz_localize"), index_moved),
    "reset_index": reset_index,
    "unstack": unstacked,
    "align": aligned,
    "value_counts": value_counts,
}
