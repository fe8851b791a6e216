"""The state that frames carry, and the provenance of whatever value turns up in an expression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray
from pandas.api.types import is_scalar as is_pandas_scalar

from clew.capture.flags import IDENTITY, INFERRED, OPAQUE
from clew.capture.provenance import (
    Provenance,
    SeriesState,
    array_provenance,
    scalar_provenance,
    union,
    used_for,
)
from clew.capture.records import Listed, Record, SameLabels
from clew.capture.versions import STATE, FrameVersion, index_names

_ITEMS_READ = 64
SCALARS = (str, bytes, int, float, complex, np.generic)


def version_of(frame: Any) -> FrameVersion:
    """The version of `frame` as it is now; a frame not seen before gets its first one."""
    state = frame.__dict__
    version: FrameVersion | None = state.get(STATE)
    if version is None:
        version = state[STATE] = FrameVersion.of(frame)
    elif version.columns is not frame._mgr.axes[0]:
        version = _relabelled(frame, version)
    return version


def _relabelled(frame: Any, known: FrameVersion) -> FrameVersion:
    """The labels changed behind our back, as by `df.columns = [...]`: a rename by position."""
    columns = frame._mgr.axes[0]
    if len(columns) == len(known.columns) and columns.equals(known.columns):
        known.columns = columns
        return known
    version = FrameVersion.of(frame, uid=known.uid)
    if len(columns) == len(known.columns):
        renamed = {after: known.field(before) for before, after in zip(known.columns, columns, strict=True)}
        for name in version.index_names:
            renamed.setdefault(name, known.field(name) if known.has(name) else {})
        record = Record("columns", "transformation", version, Listed(renamed))
    else:
        record = Record("columns", "unknown", version, SameLabels(known, IDENTITY | OPAQUE))
    record.parents = (known,)
    record.is_pending = True
    version.made_by = record
    frame.__dict__[STATE] = version
    return version


def provenance_of(value: Any) -> Provenance | None:
    """Where a value came from: None if nothing is known about it, empty for a constant."""
    if isinstance(value, pd.Series):
        state = value.__dict__.get(STATE)
        return state.whole() if state is not None else None
    if isinstance(value, pd.DataFrame):
        return version_of(value).fields()
    if isinstance(value, (np.ndarray, ExtensionArray)):
        return array_provenance(value)
    if isinstance(value, pd.Index):
        state = index_state(value)
        return state.whole() if state is not None else None
    if isinstance(value, (list, tuple)):
        return _of_items(value)
    return scalar_provenance(value)


def index_state(index: Any) -> SeriesState | None:
    """What an Index carries: its own state, or what is known of the frame that it is the index of."""
    state = index.__dict__.get(STATE)
    if isinstance(state, FrameVersion):
        levels = {name: state.field(name) for name in state.index_names}
        return SeriesState(union(*levels.values()), levels, _rows_above(state))
    return state if isinstance(state, SeriesState) else None


def _rows_above(version: FrameVersion) -> Provenance | None:
    """All that chose the rows of a frame, back to where it began."""
    found: list[Provenance] = []
    waiting, seen = [version], {version}
    while waiting:
        maker = waiting.pop().made_by
        if maker is not None:
            found.append(maker.rows)
            above = [parent for parent in maker.parents if parent not in seen]
            waiting += above
            seen.update(above)
    return union(*found) or None


def used_as(value: Any, use: int) -> Provenance:
    """What the use of a value depends on: its own sources take that use, what chose its rows stays what it was."""
    if isinstance(value, (pd.Series, pd.Index)):
        state = value.__dict__.get(STATE) if isinstance(value, pd.Series) else index_state(value)
        return union(used_for(state.provenance, use), state.rows) if state is not None else {}
    return used_for(known(value), use)


def _of_items(values: list[Any] | tuple[Any, ...]) -> Provenance | None:
    if len(values) > _ITEMS_READ:
        return None
    found = [known for known in map(provenance_of, values) if known is not None]
    return union(*found) if found else None


def known(value: Any) -> Provenance:
    """The provenance of a value, empty where nothing is known."""
    return provenance_of(value) or {}


def is_scalar(value: Any) -> bool:
    """Whether a value is a single one."""
    return value is None or isinstance(value, SCALARS) or bool(is_pandas_scalar(value))


def series_parts(series: Any) -> SeriesState:
    """The state of a Series, an empty one where nothing is known."""
    state = series.__dict__.get(STATE)
    return state if state is not None else SeriesState({})


def is_mask(key: Any) -> bool:
    """Whether a key selects rows by truth."""
    if isinstance(key, (pd.Series, np.ndarray, pd.Index, ExtensionArray)):
        return bool(key.dtype == bool) or str(key.dtype) in {"boolean", "bool[pyarrow]"}
    return isinstance(key, list) and bool(key) and isinstance(key[0], (bool, np.bool_))


def as_labels(value: Any) -> list[Any]:
    """A label or several as a list; a tuple is one label."""
    if value is None:
        return []
    if isinstance(value, (list, pd.Index, np.ndarray, pd.Series)):
        return list(value)
    return [value]


def inferred(provenance: Provenance) -> Provenance:
    """The same, marked as a guess."""
    return {field: flags | INFERRED for field, flags in provenance.items()}


__all__ = [
    "as_labels",
    "index_names",
    "inferred",
    "is_mask",
    "is_scalar",
    "known",
    "provenance_of",
    "series_parts",
    "used_as",
    "version_of",
]
