"""Rules for making frames and Series of data: columns, rows, arrays, plain values that left pandas on their way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from clew.capture.bytecode import entries_of
from clew.capture.flags import INFERRED, TRANSFORMATION
from clew.capture.frames.calls import Call, is_literal, made, statement_provenance, worked_out
from clew.capture.frames.state import given_levels, inferred, is_scalar, known, provenance_of, series_parts, version_of
from clew.capture.provenance import Provenance, SeriesState, array_columns, by_position, mark_series, through, union
from clew.capture.records import Listed
from clew.capture.statements import columns_read
from clew.capture.versions import STATE

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from clew.capture.bytecode import Span

# As many single values are known of at a time.
_ROWS_READ = 256
_CONTAINERS = (list, tuple, set, frozenset, dict)


def created(call: Call) -> None:
    """pd.DataFrame(data)."""
    if getattr(call.subject, STATE, None) is None:
        call.is_module_function = True
        fields = _fields_of(call.argument(0, "data"), call.subject, call, "DataFrame")
        made(call, "creation", Listed(fields), frame=call.subject, method="DataFrame")


def created_series(call: Call) -> None:
    """pd.Series(data)."""
    data, index = call.argument(0, "data"), call.argument(1, "index")
    found = provenance_of(data)
    if isinstance(data, dict):
        found = union(*[provenance_of(value) for value in list(data.values())[:64]]) or None
    if isinstance(index, (pd.Index, pd.Series)) and provenance_of(index):
        mark_series(call.subject, found or {}, {index.name: known(index)})
    elif found is not None:
        state = series_parts(data) if isinstance(data, pd.Series) else SeriesState(found)
        mark_series(call.subject, state.provenance, state.index, state.rows)
    elif isinstance(data, (np.ndarray, ExtensionArray, *_CONTAINERS)) and not is_literal(data, call):
        mark_series(call.subject, statement_provenance(call, "Series"))


def created_from(call: Call) -> None:
    """pd.DataFrame.from_dict and its relatives."""
    made(call, "creation", Listed(_fields_of(call.argument(0, "data"), call.result, call, call.name)))


def _fields_of(data: Any, frame: Any, call: Call, function: str) -> dict[Hashable, Provenance]:
    """The provenance of each column and level of a frame that was made of `data` by a function."""
    names = [name for name in frame.index.names if name is not None]
    if isinstance(data, dict):
        fields = _of_entries(data, frame, call, function)
        levels = [value for value in data.values() if isinstance(value, pd.Series)]
        return _levels_of(levels, names) | fields | _given_levels(call, names)
    if isinstance(data, pd.DataFrame):
        source = version_of(data)
        return {label: source.field(label) for label in (*frame.columns, *source.index_names) if source.has(label)}
    if isinstance(data, pd.Series):
        state = series_parts(data)
        return {**dict.fromkeys(frame.columns, state.whole()), **(state.index or {})}
    by_column = array_columns(data) if isinstance(data, np.ndarray) else None
    if by_column is not None and len(by_column) == len(frame.columns):
        return by_position(list(frame.columns), by_column) | _given_levels(call, names)
    if _holds_rows(data):
        return _of_rows(data, list(frame.columns), call, function) | _given_levels(call, names)
    found = provenance_of(data) if isinstance(data, (list, tuple, np.ndarray)) else {}
    if found is None:
        found = through(statement_provenance(call, function), TRANSFORMATION)
    # Of several columns in one array or list it is not known which is whose.
    several = inferred(found) if len(frame.columns) > 1 else found
    return dict.fromkeys(frame.columns, several) | _given_levels(call, names)


def _holds_rows(data: Any) -> bool:
    """Whether data is a list of rows, of which some values may be known and others not."""
    return isinstance(data, (list, tuple)) and any(isinstance(row, (list, tuple, dict)) for row in data[:1])


def _of_rows(data: Any, labels: list[Hashable], call: Call, function: str) -> dict[Hashable, Provenance]:
    """Columns of a list of rows: by the values in them that are known, or by what was read for those that are not."""
    entries = {label: _in_rows(data, place, label) for place, label in enumerate(labels)}
    if not any(entries.values()):
        return dict.fromkeys(labels, through(statement_provenance(call, function), TRANSFORMATION))
    read = _left_over(call, function, entries.values())
    return {label: found or read for label, found in entries.items()}


def _in_rows(rows: Any, place: int, label: Hashable) -> Provenance | None:
    """Where the values in one column of some rows came from; None if that is not known of each."""
    if len(rows) > _ROWS_READ:
        return None
    found = [provenance_of(_in_row(row, place, label)) for row in rows]
    return None if any(one is None for one in found) else union(*found)


def _in_row(row: Any, place: int, label: Hashable) -> Any:
    if isinstance(row, dict):
        return row.get(label)
    return row[place] if isinstance(row, (list, tuple)) and place < len(row) else None


def _of_entries(data: dict[Any, Any], frame: Any, call: Call, function: str) -> dict[Hashable, Provenance]:
    """Entries of a dict know where they came from, or share what was read for those that do not."""
    entries = {label: provenance_of(data.get(label)) for label in frame.columns}
    unknown = [
        label
        for label, found in entries.items()
        if found is None and not is_scalar(data.get(label)) and not is_literal(data.get(label), call)
    ]
    if not unknown:
        return {label: found or {} for label, found in entries.items()}
    parts = _entry_parts(data, call)
    read = _left_over(call, function, entries.values())
    spent = {field for found in entries.values() if found for field in found if field not in read}
    guessed = {label: _guessed(call, parts[label], spent) if label in parts else read for label in unknown}
    return {label: guessed.get(label, found or {}) for label, found in entries.items()}


def _guessed(call: Call, part: Span, spent: set[Any]) -> Provenance:
    """What a part of the statement read, without what went into entries that are known."""
    found = statement_provenance(call, part)
    return {field: flags for field, flags in found.items() if field not in spent}


def _entry_parts(data: dict[Any, Any], call: Call) -> dict[Any, Span]:
    """The parts of the running statement that work out the entries of a mapping, if it stands in the call."""
    within = worked_out(data, call)
    spans = entries_of(call.frame.f_code, within) if within is not None else []
    return dict(zip(data, spans, strict=True)) if len(spans) == len(data) else {}


def _left_over(call: Call, function: str, known_entries: Iterable[Provenance | None]) -> Provenance:
    """What was read more often than the entries that are known account for."""
    times = Counter(field for read in columns_read(call.frame, function) for field in read)
    times.subtract(field for entry in known_entries if entry is not None for field in entry)
    return {field: TRANSFORMATION | INFERRED for field, left in times.items() if left > 0}


def _given_levels(call: Call, names: list[Hashable]) -> dict[Hashable, Provenance]:
    """The levels of an index that was given and knows where it came from."""
    index = call.argument(1, "index")
    return given_levels(index, names) if isinstance(index, pd.Series) or provenance_of(index) is not None else {}


def _levels_of(series: list[Any], names: list[Hashable]) -> dict[Hashable, Provenance]:
    return {name: union(*[(series_parts(one).index or {}).get(name) for one in series]) for name in names}
