"""Rules for Series methods that read or create index labels: reindex, value_counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from clew.capture.flags import GROUP_BY, JOIN, SORT, TRANSFORMATION
from clew.capture.frames.calls import Call, record_created
from clew.capture.frames.series import assign_to_series_result, operation_type, record_to_frame, single_parent
from clew.capture.frames.state import (
    index_names,
    level_provenance,
    levels_by_position,
    lineage_or_empty,
    provenance_or_empty,
    resolve_level_names,
)
from clew.capture.provenance import Provenance, SeriesLineage, apply_direct, as_indirect, attach_to_series, union
from clew.capture.records import ExplicitEdges

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


def trace_series_rename_axis(call: Call) -> None:
    """Trace Series.rename_axis: levels get new names by position."""
    lineage = call.pre_state
    if isinstance(call.result, pd.Series):
        levels = levels_by_position(lineage.index or {}, index_names(call.result.index))
        attach_to_series(call.result, lineage.provenance, levels or None, lineage.rows)


def trace_series_index_conversion(call: Call) -> None:
    """Trace Series.tz_convert, Series.to_period and similar: the index is transformed, the values are unchanged."""
    lineage = call.pre_state
    levels = {name: apply_direct(provenance, TRANSFORMATION) for name, provenance in (lineage.index or {}).items()}
    attach_to_series(call.result, lineage.provenance, levels or None, lineage.rows)


def trace_series_shift(call: Call) -> None:
    """Trace Series.shift(periods): shifts the values, or the index if `freq` is set."""
    lineage = call.pre_state
    if call.argument(1, "freq") is not None:
        trace_series_index_conversion(call)
    elif isinstance(call.result, pd.Series):
        attach_to_series(call.result, apply_direct(lineage.provenance, TRANSFORMATION), lineage.index, lineage.rows)
    else:
        record_to_frame(
            call, SeriesLineage(apply_direct(lineage.provenance, TRANSFORMATION), lineage.index, lineage.rows)
        )


def trace_series_sort_index(call: Call) -> None:
    """Trace Series.sort_index(level=...): sorted by the named levels."""
    lineage, levels = call.pre_state, call.pre_state.index or {}
    names = resolve_level_names(call.receiver, call.kwargs.get("level")) or levels
    rows = union(lineage.rows, *[as_indirect(levels.get(name), SORT) for name in names])
    assign_to_series_result(call, lineage.provenance, lineage.index, rows or None)


def trace_series_reindex(call: Call) -> None:
    """Trace Series.reindex: values are looked up by label, as in `map`."""
    lineage, labels, result = call.pre_state, call.argument(0, "index"), call.result
    label_provenance = provenance_or_empty(labels)
    if not label_provenance:
        attach_to_series(result, lineage.provenance, lineage.index, lineage.rows)
        return
    rows = union(
        lineage.rows,
        *[as_indirect(provenance, JOIN) for provenance in (label_provenance, *(lineage.index or {}).values())],
    )
    attach_to_series(result, lineage.provenance, level_provenance(labels, index_names(result.index)) or None, rows)


def trace_series_align(call: Call) -> None:
    """Trace series.align(other): both Series are returned with the same index."""
    for source, result in zip((call.receiver, call.argument(0, "other")), call.result, strict=True):
        if isinstance(source, pd.Series):
            lineage = lineage_or_empty(source)
            attach_to_series(result, lineage.provenance, lineage.index, lineage.rows)


def trace_series_reset_index(call: Call) -> None:
    """Trace Series.reset_index: the named levels become columns."""
    lineage, result = call.pre_state, call.result
    if isinstance(result, pd.DataFrame):
        names = index_names(call.receiver.index)
        level_fields = levels_by_position(lineage.index or {}, names)
        fields = {label: level_fields.get(label, {}) for label in (*result.columns, *names)}
        fields[result.columns[-1]] = lineage.provenance
        record_created(call, operation_type(lineage), ExplicitEdges(fields), lineage.rows, single_parent(lineage))
    else:
        assign_to_series_result(call, lineage.provenance, None, lineage.rows)


def trace_series_unstack(call: Call) -> None:
    """Trace Series.unstack: one level becomes columns."""
    lineage, result = call.pre_state, call.result
    if not isinstance(result, pd.DataFrame):
        return
    names = index_names(result.index)
    moved_levels = union(
        *[
            as_indirect(provenance, GROUP_BY)
            for level, provenance in (lineage.index or {}).items()
            if level not in names
        ]
    )
    fields: dict[Hashable, Provenance] = dict.fromkeys(result.columns, lineage.provenance)
    fields.update({name: (lineage.index or {}).get(name, {}) for name in names})
    record_created(call, "reshape", ExplicitEdges(fields), union(lineage.rows, moved_levels))


def trace_series_value_counts(call: Call) -> None:
    """Trace Series.value_counts: a count has no DIRECT source; the values become its index."""
    lineage = call.pre_state
    rows = union(lineage.rows, as_indirect(lineage.provenance, GROUP_BY))
    attach_to_series(call.result, {}, {call.receiver.name: lineage.provenance}, rows)


SERIES_INDEX_RULES: dict[str, Callable[[Call], None]] = {
    "rename_axis": trace_series_rename_axis,
    "reindex": trace_series_reindex,
    "sort_index": trace_series_sort_index,
    "shift": trace_series_shift,
    **dict.fromkeys(("to_period", "to_timestamp", "tz_convert", "tz_localize"), trace_series_index_conversion),
    "reset_index": trace_series_reset_index,
    "unstack": trace_series_unstack,
    "align": trace_series_align,
    "value_counts": trace_series_value_counts,
}
