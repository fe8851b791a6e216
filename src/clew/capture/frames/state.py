"""The state that frames carry, and the provenance of whatever value turns up in an expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray
from pandas.api.types import is_scalar as is_pandas_scalar
from pandas.core.base import SelectionMixin
from pandas.core.generic import NDFrame

from clew.capture.flags import IDENTITY, INFERRED, OPAQUE
from clew.capture.provenance import (
    Provenance,
    SeriesState,
    array_provenance,
    by_position,
    scalar_provenance,
    union,
    used_for,
)
from clew.capture.records import Listed, Record, SameLabels
from clew.capture.versions import STATE, FrameVersion, give_state, index_names, listed

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

_ITEMS_READ = 64
SCALARS = (str, bytes, int, float, complex, np.generic)

_OWNERS = (NDFrame, pd.Index, SelectionMixin)


def give_defaults() -> None:
    """Let every object of pandas have a state: to ask must not reach its `__getattr__`, which looks for a column."""
    for owner in _OWNERS:
        setattr(owner, STATE, None)


def take_defaults() -> None:
    """Leave pandas' classes as they were; what objects carry stays with them."""
    for owner in _OWNERS:
        if STATE in vars(owner):
            delattr(owner, STATE)


def version_of(frame: Any) -> FrameVersion:
    """The version of `frame` as it is now; a frame not seen before gets its first one."""
    # Asked with capture off, too.
    version: FrameVersion | None = getattr(frame, STATE, None)
    if version is None:
        version = FrameVersion.of(frame)
        give_state(frame, version)
    elif version.columns is not frame._mgr.axes[0] or (renames.seen and _has_other_levels(frame, version)):
        version = _relabelled(frame, version)
    return version


class _Renames:
    """Whether an index was ever renamed in place: only then are names of levels compared."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = False


renames = _Renames()


def _has_other_levels(frame: Any, version: FrameVersion) -> bool:
    return index_names(frame._mgr.axes[1]) != version.index_names


def _relabelled(frame: Any, known: FrameVersion) -> FrameVersion:
    """The labels changed behind our back, as by `df.columns = [...]`: a rename by position."""
    columns = frame._mgr.axes[0]
    version = FrameVersion.of(frame, uid=known.uid)
    is_same = len(columns) == len(known.columns) and columns.equals(known.columns)
    if is_same and version.index_names == known.index_names:
        known.columns = columns
        return known
    if len(columns) == len(known.columns):
        levels = [known.field(name) for name in known.index_names]
        renamed = levels_by_place(dict(zip(known.index_names, levels, strict=True)), version.index_names)
        renamed |= by_position(listed(columns), [known.field(before) for before in listed(known.columns)])
        record = Record("columns", "transformation", version, Listed(renamed))
    else:
        record = Record("columns", "unknown", version, SameLabels(known, IDENTITY | OPAQUE))
    record.parents = (known,)
    record.is_pending = True
    version.made_by = record
    give_state(frame, version)
    return version


def provenance_of(value: Any) -> Provenance | None:
    """Where a value came from: None if nothing is known about it, empty for a constant."""
    if isinstance(value, pd.Series):
        state = getattr(value, STATE, None)
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
    state = getattr(index, STATE, None)
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


def levels_by_place(levels: dict[Hashable, Provenance], names: Iterable[Hashable]) -> dict[Hashable, Provenance]:
    """The same levels under the names that they have now: by name, or by place where they were renamed."""
    wanted = list(names)
    if len(wanted) == len(levels) and any(name not in levels for name in wanted):
        return dict(zip(wanted, levels.values(), strict=True))
    return {name: levels.get(name, {}) for name in wanted}


def given_levels(index: Any, names: Iterable[Hashable]) -> dict[Hashable, Provenance]:
    """Where the named levels of an index come from that was made of `index`."""
    if isinstance(index, pd.Series):
        return dict.fromkeys(names, series_parts(index).provenance)
    state = index_state(index) if isinstance(index, pd.Index) else None
    if state is None:
        return {name: {} for name in names}
    return {name: (state.index or {}).get(name, state.provenance) for name in names}


def used_as(value: Any, use: int) -> Provenance:
    """What the use of a value depends on: its own sources take that use, what chose its rows stays what it was."""
    if isinstance(value, (pd.Series, pd.Index)):
        state = getattr(value, STATE, None) if isinstance(value, pd.Series) else index_state(value)
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
    state = getattr(series, STATE, None)
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


def levels_named(subject: Any, level: Any) -> list[Hashable]:
    """The names of the levels of an index that are given by name or number."""
    if level is None:
        return []
    names = subject.index.names
    chosen = [names[one] if isinstance(one, int) and one not in names else one for one in as_labels(level)]
    return [name for name in chosen if name is not None]


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
