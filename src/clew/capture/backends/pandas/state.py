"""Lineage state attached to pandas objects, and the provenance of arbitrary values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray
from pandas.api.types import is_scalar as is_pandas_scalar
from pandas.core.base import SelectionMixin
from pandas.core.generic import NDFrame

from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion, column_labels, index_names, new_uid, set_state
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges, OperationRecord
from clew.capture.lineage.provenance import (
    Provenance,
    SeriesLineage,
    array_provenance,
    as_indirect,
    scalar_provenance,
    union,
    zip_by_position,
)
from clew.capture.lineage.transformations import IDENTITY, INFERRED, OPAQUE

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from types import CodeType, FrameType

_MAX_ITEMS_TRACED = 64
# A frame with more blocks is fragmented: listing its types would cost more than the operation.
_MAX_BLOCKS = 64
_MAX_RENAMES = 64
SCALAR_TYPES = (str, bytes, int, float, complex, np.generic)

_STATE_OWNERS = (NDFrame, pd.Index, SelectionMixin)


def install_state_attr() -> None:
    """Define the state attribute on pandas' classes, so that reading it never reaches their `__getattr__`."""
    for owner in _STATE_OWNERS:
        setattr(owner, STATE_ATTR, None)


def remove_state_attr() -> None:
    """Remove the state attribute from pandas' classes; instances retain theirs."""
    for owner in _STATE_OWNERS:
        if STATE_ATTR in vars(owner):
            delattr(owner, STATE_ATTR)


def snapshot_frame(frame: Any, uid: int | None = None) -> FrameVersion:
    """Create the version that describes `frame` as it is now; `uid` is that of a frame mutated in place."""
    manager = frame._mgr
    columns, index = manager.axes
    blocks: list[Any] | None = None
    if len(manager.blocks) <= _MAX_BLOCKS:
        blocks = []
        add = blocks.append
        for block in manager.blocks:
            add(block.values.dtype)  # noqa: PD011 - a block of the manager
            # The private attribute: the property is slower, and this runs about a hundred times per cell.
            add(block._mgr_locs)
    return FrameVersion(
        new_uid() if uid is None else uid, columns, index_names(index), (len(index), len(columns)), id(frame), blocks
    )


def current_version(frame: Any) -> FrameVersion:
    """Return the current version of `frame`; create one for a frame that has none."""
    # With a default: the class attribute is absent while capture is off.
    version: FrameVersion | None = getattr(frame, STATE_ATTR, None)
    if version is None:
        version = snapshot_frame(frame)
        set_state(frame, version)
    elif version.columns is not frame._mgr.axes[0] or (index_renames.is_set and _has_renamed_levels(frame, version)):
        version = _detect_rename(frame, version)
    return version


class _IndexRenames:
    """Whether any index was renamed in place, since level names are compared only after that; and where."""

    __slots__ = ("is_set", "locations")

    def __init__(self) -> None:
        self.is_set = False
        # By id(index); the latest only.
        self.locations: dict[int, tuple[CodeType, int]] = {}

    def record(self, index: Any, caller: FrameType) -> None:
        """Record that the code running in `caller` renamed an index."""
        self.is_set = True
        if len(self.locations) >= _MAX_RENAMES:
            self.locations.clear()
        self.locations[id(index)] = (caller.f_code, caller.f_lasti)


index_renames = _IndexRenames()


def _has_renamed_levels(frame: Any, version: FrameVersion) -> bool:
    return index_names(frame._mgr.axes[1]) != version.index_names


def _detect_rename(frame: Any, previous: FrameVersion) -> FrameVersion:
    """Record a rename that no wrapper saw, such as `df.index.name = "id"`: labels are matched by position."""
    columns = frame._mgr.axes[0]
    version = snapshot_frame(frame, uid=previous.uid)
    is_same = len(columns) == len(previous.columns) and columns.equals(previous.columns)
    if is_same and version.index_names == previous.index_names:
        previous.columns = columns
        return previous
    if len(columns) == len(previous.columns):
        method = "index" if is_same else "columns"
        operation = OperationRecord(method, "transformation", version, ExplicitEdges(renamed_fields(previous, frame)))
    else:
        operation = OperationRecord("columns", "unknown", version, IdentityEdges(previous, IDENTITY | OPAQUE))
    operation.parents = (previous,)
    operation.is_pending = True
    operation.code, operation.instruction = index_renames.locations.get(id(frame._mgr.axes[1]), (None, 0))
    version.made_by = operation
    set_state(frame, version)
    return version


def renamed_fields(previous: FrameVersion, frame: Any) -> dict[Hashable, Provenance]:
    """Return the provenance of columns and levels that got new names, by position."""
    levels = levels_by_position(previous.levels(), index_names(frame._mgr.axes[1]))
    sources = [previous.field(label) for label in column_labels(previous.columns)]
    return levels | zip_by_position(column_labels(frame._mgr.axes[0]), sources)


def provenance_of(value: Any) -> Provenance | None:
    """Return the provenance of a value: None if it is unknown, empty for a constant."""
    if isinstance(value, pd.Series):
        state = getattr(value, STATE_ATTR, None)
        return state.combined() if state is not None else None
    if isinstance(value, pd.DataFrame):
        return current_version(value).fields()
    if isinstance(value, (np.ndarray, ExtensionArray)):
        return array_provenance(value)
    if isinstance(value, pd.Index):
        state = index_lineage(value)
        return state.combined() if state is not None else None
    if isinstance(value, (list, tuple)):
        return _items_provenance(value)
    return scalar_provenance(value)


def index_lineage(index: Any) -> SeriesLineage | None:
    """Return the lineage of an Index: its own, or that of the frame it belongs to."""
    state = getattr(index, STATE_ATTR, None)
    if isinstance(state, FrameVersion):
        levels = state.levels()
        return SeriesLineage(union(*levels.values()), levels, _inherited_rows(state))
    return state if isinstance(state, SeriesLineage) else None


def _inherited_rows(version: FrameVersion) -> Provenance | None:
    """Return the row provenance of all operations upstream of a frame."""
    row_provenance: list[Provenance] = []
    pending, seen = [version], {version}
    while pending:
        operation = pending.pop().made_by
        if operation is not None:
            row_provenance.append(operation.rows)
            ancestors = [parent for parent in operation.parents if parent not in seen]
            pending += ancestors
            seen.update(ancestors)
    return union(*row_provenance) or None


def levels_by_position(levels: dict[Hashable, Provenance], names: Iterable[Hashable]) -> dict[Hashable, Provenance]:
    """Map levels to their current names: by name, or by position if they were renamed."""
    current_names = list(names)
    if len(current_names) == len(levels) and any(name not in levels for name in current_names):
        return dict(zip(current_names, levels.values(), strict=True))
    return {name: levels.get(name, {}) for name in current_names}


def level_provenance(index: Any, names: Iterable[Hashable]) -> dict[Hashable, Provenance]:
    """Return the provenance of the named levels of an index built from `index`."""
    if isinstance(index, pd.Series):
        return dict.fromkeys(names, lineage_or_empty(index).provenance)
    state = index_lineage(index) if isinstance(index, pd.Index) else None
    if state is None:
        return {name: {} for name in names}
    return {name: (state.index or {}).get(name, state.provenance) for name in names}


def indirect_use(value: Any, use: int) -> Provenance:
    """Return the provenance of using a value indirectly: its sources get the type `use`, its rows are unchanged."""
    if isinstance(value, (pd.Series, pd.Index)):
        state = getattr(value, STATE_ATTR, None) if isinstance(value, pd.Series) else index_lineage(value)
        return union(as_indirect(state.provenance, use), state.rows) if state is not None else {}
    return as_indirect(provenance_or_empty(value), use)


def _items_provenance(values: list[Any] | tuple[Any, ...]) -> Provenance | None:
    if len(values) > _MAX_ITEMS_TRACED:
        return None
    items = [provenance for provenance in map(provenance_of, values) if provenance is not None]
    return union(*items) if items else None


def provenance_or_empty(value: Any) -> Provenance:
    """Return the provenance of a value, empty if it is unknown."""
    return provenance_of(value) or {}


def is_scalar(value: Any) -> bool:
    """Return whether a value is a scalar."""
    return value is None or isinstance(value, SCALAR_TYPES) or bool(is_pandas_scalar(value))


def lineage_or_empty(series: Any) -> SeriesLineage:
    """Return the lineage of a Series, empty if it is unknown."""
    state = getattr(series, STATE_ATTR, None)
    return state if state is not None else SeriesLineage({})


def is_mask(key: Any) -> bool:
    """Return whether a key is a boolean mask."""
    if isinstance(key, (pd.Series, np.ndarray, pd.Index, ExtensionArray)):
        return bool(key.dtype == bool) or str(key.dtype) in {"boolean", "bool[pyarrow]"}
    return isinstance(key, list) and bool(key) and isinstance(key[0], (bool, np.bool_))


def as_labels(value: Any) -> list[Any]:
    """Return one or several labels as a list; a tuple is one label."""
    if value is None:
        return []
    if isinstance(value, (list, pd.Index, np.ndarray, pd.Series)):
        return list(value)
    return [value]


def resolve_level_names(receiver: Any, level: Any) -> list[Hashable]:
    """Return the names of index levels that are selected by name or number."""
    if level is None:
        return []
    names = receiver.index.names
    resolved = [names[item] if isinstance(item, int) and item not in names else item for item in as_labels(level)]
    return [name for name in resolved if name is not None]


def mark_inferred(provenance: Provenance) -> Provenance:
    """Return the provenance with the INFERRED flag set."""
    return {field: flags | INFERRED for field, flags in provenance.items()}
