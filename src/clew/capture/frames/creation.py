"""Rules for constructors: frames and Series built from columns, rows, arrays or plain Python values."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from clew.capture.bytecode import mapping_value_spans
from clew.capture.flags import INFERRED, TRANSFORMATION
from clew.capture.frames.calls import Call, argument_span, infer_from_statement, is_code_literal, record_created
from clew.capture.frames.state import (
    current_version,
    is_scalar,
    level_provenance,
    lineage_or_empty,
    mark_inferred,
    provenance_of,
    provenance_or_empty,
)
from clew.capture.provenance import (
    Provenance,
    SeriesLineage,
    apply_direct,
    array_columns,
    attach_to_series,
    union,
    zip_by_position,
)
from clew.capture.records import ExplicitEdges
from clew.capture.statements import columns_read_for
from clew.capture.versions import STATE_ATTR

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from clew.capture.bytecode import Span

# No more than the number of scalars tracked per thread.
_MAX_ROWS_TRACED = 256
_CONTAINERS = (list, tuple, set, frozenset, dict)


def trace_frame_init(call: Call) -> None:
    """Trace pd.DataFrame(data)."""
    if getattr(call.receiver, STATE_ATTR, None) is None:
        call.is_module_function = True
        fields = _fields_from_data(call.argument(0, "data"), call.receiver, call, "DataFrame")
        record_created(call, "creation", ExplicitEdges(fields), frame=call.receiver, method="DataFrame")


def trace_series_init(call: Call) -> None:
    """Trace pd.Series(data)."""
    data, index = call.argument(0, "data"), call.argument(1, "index")
    provenance = provenance_of(data)
    if isinstance(data, dict):
        provenance = union(*[provenance_of(value) for value in list(data.values())[:64]]) or None
    if isinstance(index, (pd.Index, pd.Series)) and provenance_of(index):
        attach_to_series(call.receiver, provenance or {}, {index.name: provenance_or_empty(index)})
    elif provenance is not None:
        lineage = lineage_or_empty(data) if isinstance(data, pd.Series) else SeriesLineage(provenance)
        attach_to_series(call.receiver, lineage.provenance, lineage.index, lineage.rows)
    elif isinstance(data, (np.ndarray, ExtensionArray, *_CONTAINERS)) and not is_code_literal(data, call):
        attach_to_series(call.receiver, infer_from_statement(call, "Series"))


def trace_frame_from(call: Call) -> None:
    """Trace pd.DataFrame.from_dict, from_records and from_arrow."""
    record_created(
        call, "creation", ExplicitEdges(_fields_from_data(call.argument(0, "data"), call.result, call, call.name))
    )


def _fields_from_data(data: Any, frame: Any, call: Call, function_name: str) -> dict[Hashable, Provenance]:
    """Return the provenance of each column and level of a frame that a function built from `data`."""
    names = [name for name in frame.index.names if name is not None]
    if isinstance(data, dict):
        fields = _fields_from_dict(data, frame, call, function_name)
        levels = [value for value in data.values() if isinstance(value, pd.Series)]
        return _series_levels(levels, names) | fields | _index_argument_levels(call, names)
    if isinstance(data, pd.DataFrame):
        source = current_version(data)
        return {label: source.field(label) for label in (*frame.columns, *source.index_names) if source.has(label)}
    if isinstance(data, pd.Series):
        lineage = lineage_or_empty(data)
        return {**dict.fromkeys(frame.columns, lineage.combined()), **(lineage.index or {})}
    by_column = array_columns(data) if isinstance(data, np.ndarray) else None
    if by_column is not None and len(by_column) == len(frame.columns):
        return zip_by_position(list(frame.columns), by_column) | _index_argument_levels(call, names)
    if _is_row_list(data):
        return _fields_from_rows(data, list(frame.columns), call, function_name) | _index_argument_levels(call, names)
    provenance = provenance_of(data) if isinstance(data, (list, tuple, np.ndarray)) else {}
    if provenance is None:
        provenance = apply_direct(infer_from_statement(call, function_name), TRANSFORMATION)
    # The source of each column of an array or list is unknown.
    column_provenance = mark_inferred(provenance) if len(frame.columns) > 1 else provenance
    return dict.fromkeys(frame.columns, column_provenance) | _index_argument_levels(call, names)


def _is_row_list(data: Any) -> bool:
    """Return whether data is a list of rows."""
    return isinstance(data, (list, tuple)) and any(isinstance(row, (list, tuple, dict)) for row in data[:1])


def _fields_from_rows(data: Any, labels: list[Hashable], call: Call, function_name: str) -> dict[Hashable, Provenance]:
    """Return the provenance of columns in a list of rows: from tracked cells, else from unaccounted reads."""
    entries = {label: _column_provenance(data, position, label) for position, label in enumerate(labels)}
    if not any(entries.values()):
        return dict.fromkeys(labels, apply_direct(infer_from_statement(call, function_name), TRANSFORMATION))
    unaccounted = _unaccounted_reads(call, function_name, entries.values())
    return {label: provenance or unaccounted for label, provenance in entries.items()}


def _column_provenance(rows: Any, position: int, label: Hashable) -> Provenance | None:
    """Return the provenance of one column of a list of rows; None unless every cell is tracked."""
    if len(rows) > _MAX_ROWS_TRACED:
        return None
    cells = [provenance_of(_cell_value(row, position, label)) for row in rows]
    return None if any(cell is None for cell in cells) else union(*cells)


def _cell_value(row: Any, position: int, label: Hashable) -> Any:
    if isinstance(row, dict):
        return row.get(label)
    return row[position] if isinstance(row, (list, tuple)) and position < len(row) else None


def _fields_from_dict(data: dict[Any, Any], frame: Any, call: Call, function_name: str) -> dict[Hashable, Provenance]:
    """Return the provenance of dict entries: tracked values, else inferred from their spans or unaccounted reads."""
    entries = {label: provenance_of(data.get(label)) for label in frame.columns}
    untracked = [
        label
        for label, provenance in entries.items()
        if provenance is None and not is_scalar(data.get(label)) and not is_code_literal(data.get(label), call)
    ]
    if not untracked:
        return {label: provenance or {} for label, provenance in entries.items()}
    spans = _entry_spans(data, call)
    unaccounted = _unaccounted_reads(call, function_name, entries.values())
    accounted = {
        field for provenance in entries.values() if provenance for field in provenance if field not in unaccounted
    }
    inferred = {
        label: _infer_entry(call, spans[label], accounted) if label in spans else unaccounted for label in untracked
    }
    return {label: inferred.get(label, provenance or {}) for label, provenance in entries.items()}


def _infer_entry(call: Call, span: Span, accounted: set[Any]) -> Provenance:
    """Infer an entry from the reads in its span, without those that tracked entries account for."""
    provenance = infer_from_statement(call, span)
    return {field: flags for field, flags in provenance.items() if field not in accounted}


def _entry_spans(data: dict[Any, Any], call: Call) -> dict[Any, Span]:
    """Return the bytecode span of each entry, if the mapping is a literal in the call."""
    argument = argument_span(data, call)
    spans = mapping_value_spans(call.caller.f_code, argument) if argument is not None else []
    return dict(zip(data, spans, strict=True)) if len(spans) == len(data) else {}


def _unaccounted_reads(call: Call, function_name: str, tracked_entries: Iterable[Provenance | None]) -> Provenance:
    """Return the columns that were read more often than tracked entries account for."""
    counts = Counter(field for read in columns_read_for(call.caller, function_name) for field in read)
    counts.subtract(field for entry in tracked_entries if entry is not None for field in entry)
    return {field: TRANSFORMATION | INFERRED for field, count in counts.items() if count > 0}


def _index_argument_levels(call: Call, names: list[Hashable]) -> dict[Hashable, Provenance]:
    """Return the level provenance of the `index` argument, if it is tracked."""
    index = call.argument(1, "index")
    return level_provenance(index, names) if isinstance(index, pd.Series) or provenance_of(index) is not None else {}


def _series_levels(series: list[Any], names: list[Hashable]) -> dict[Hashable, Provenance]:
    return {name: union(*[(lineage_or_empty(item).index or {}).get(name) for item in series]) for name in names}
