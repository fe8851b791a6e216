"""Provenance of values: which fields of which frame versions a Series, an array or a scalar came from."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct

from clew.capture.lineage.frame_version import STATE_ATTR, column_labels, set_state
from clew.capture.lineage.transformations import (
    COMPOSED,
    CONDITIONAL,
    DIRECT,
    IDENTITY,
    INDIRECT,
    MARKS,
    TRANSFORMATION,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from clew.capture.lineage.frame_version import FrameVersion

Provenance: TypeAlias = "dict[tuple[FrameVersion, Hashable], int]"
# A field of a frame version; in a parsed query, a column of a named table.
Field = TypeVar("Field")
# The frame an array was made from, or the provenance of each of its columns.
Columns: TypeAlias = "FrameVersion | list[Provenance]"

_MAX_SCALARS = 256
_SMALL_INTS = range(-5, 257)


class SeriesLineage(Struct, eq=False):
    """Lineage attached to a Series: of its values, its named index levels and the selection of its rows."""

    provenance: Provenance
    index: dict[Hashable, Provenance] | None = None
    rows: Provenance | None = None
    # The version that describes the Series, if its operation was recorded.
    version: FrameVersion | None = None

    def combined(self) -> Provenance:
        """Return the provenance of values and rows together, as needed when the Series is used as a value."""
        return union(self.provenance, self.rows) if self.rows else self.provenance


def apply_direct(provenance: dict[Field, int] | None, step: int) -> dict[Field, int]:
    """Apply a direct `step`: direct flags become the stronger of both, indirect flags stay."""
    if not provenance:
        return {}
    if step == IDENTITY:
        return provenance
    table, marks = COMPOSED[step & DIRECT], step & MARKS
    return {field: table[flags & DIRECT] | (flags & ~DIRECT) | marks for field, flags in provenance.items()}


def as_indirect(provenance: dict[Field, int] | None, use: int) -> dict[Field, int]:
    """Replace the flags of all sources by the indirect `use`; certainty marks stay."""
    if not provenance:
        return {}
    return {field: use | (flags & MARKS) for field, flags in provenance.items()}


def compose(provenance: dict[Field, int], step: int) -> dict[Field, int]:
    """Apply any combination of direct and indirect steps to `provenance`."""
    direct, indirect = step & DIRECT, step & INDIRECT
    if not indirect:
        return apply_direct(provenance, step)
    indirect_sources = as_indirect(provenance, indirect | (step & MARKS))
    return union(apply_direct(provenance, direct | (step & MARKS)), indirect_sources) if direct else indirect_sources


def union(*provenances: dict[Field, int] | None) -> dict[Field, int]:
    """Merge provenances; flags of the same field are combined."""
    merged: dict[Field, int] = {}
    for provenance in provenances:
        if not provenance:
            continue
        if not merged:
            merged = dict(provenance)
            continue
        for field, flags in provenance.items():
            merged[field] = merged.get(field, 0) | flags
    return merged


def conditional(values: Provenance, conditions: Provenance | None) -> Provenance:
    """Return values that conditions chose: TRANSFORMATION of the values, CONDITIONAL of the conditions."""
    return union(apply_direct(values, TRANSFORMATION), as_indirect(conditions, CONDITIONAL))


def coalesced(*operands: Provenance) -> Provenance:
    """Return a value from the first operand that is not null: each is a value and a condition."""
    both = union(*operands)
    return conditional(both, both)


def zip_by_position(labels: list[Hashable], sources: list[Provenance]) -> dict[Hashable, Provenance]:
    """Assign sources to labels by position; duplicate labels get the union."""
    fields: dict[Hashable, Provenance] = {}
    for label, source in zip(labels, sources, strict=False):
        fields[label] = union(fields[label], source) if label in fields else source
    return fields


class _Scalars(threading.local):
    def __init__(self) -> None:
        self.by_id: dict[int, tuple[object, Provenance]] = {}


_scalars = _Scalars()
_arrays: dict[int, tuple[weakref.ref[Any], Provenance, Columns | None]] = {}


def attach_to_array(array: Any, provenance: Provenance | None, columns: Columns | None = None) -> None:
    """Attach `provenance`, and optionally that of each column, to an array for its lifetime."""
    if not provenance:
        return
    key = id(array)

    # An id() is reused after garbage collection, so the weakref callback must drop the entry.
    def forget(_: object) -> None:
        _arrays.pop(key, None)

    _arrays[key] = (weakref.ref(array, forget), provenance, columns)


def array_provenance(array: Any) -> Provenance | None:
    """Return the provenance attached to an array or to the array it is a view of."""
    entry = _arrays.get(id(array))
    if entry is not None and entry[0]() is array:
        return entry[1]
    # Not of any object: `__getattr__` may ask a database for a column of that name.
    base = array.base if hasattr(type(array), "base") else None
    return array_provenance(base) if base is not None and base is not array else None


def array_version(array: Any) -> FrameVersion | None:
    """Return the frame version that an array or an Arrow table was made from, if it is known."""
    entry = _arrays.get(id(array))
    is_known = entry is not None and entry[0]() is array and not isinstance(entry[2], list)
    return entry[2] if is_known else None  # type: ignore[index, return-value]


def array_columns(array: Any) -> list[Provenance] | None:
    """Return the provenance of each column of an array, or None if unknown."""
    entry = _arrays.get(id(array))
    if entry is None or entry[0]() is not array or entry[2] is None:
        return None
    columns = entry[2]
    return columns if isinstance(columns, list) else [columns.field(label) for label in column_labels(columns.columns)]


def attach_to_scalar(value: Any, provenance: Provenance | None) -> None:
    """Attach `provenance` to a scalar by identity, for the last 256 scalars of a thread."""
    kind = type(value)
    # Interned values would carry one frame's provenance into unrelated code.
    if not provenance or value is None or kind in (bool, str, bytes) or (kind is int and value in _SMALL_INTS):
        return
    by_id = _scalars.by_id
    if len(by_id) >= _MAX_SCALARS:
        del by_id[next(iter(by_id))]
    by_id[id(value)] = (value, provenance)


def scalar_provenance(value: Any) -> Provenance | None:
    """Return the provenance attached to this scalar object."""
    entry = _scalars.by_id.get(id(value))
    return entry[1] if entry is not None and entry[0] is value else None


def scalar_with_value(number: float) -> Provenance | None:
    """Return the provenance of the last scalar with a value that is not a small integer, which may be a literal."""
    if isinstance(number, int) and number in _SMALL_INTS:
        return None
    found = [entry for value, entry in _scalars.by_id.values() if isinstance(value, (int, float)) and value == number]
    return found[-1] if found else None


def attach_to_series(
    series: Any, provenance: Provenance, index: dict[Hashable, Provenance] | None = None, rows: Provenance | None = None
) -> None:
    """Attach lineage to a Series."""
    state = SeriesLineage(provenance, index, rows)
    set_state(series, state)
    if index or rows:
        attach_to_index(series, state)


def attach_to_index(series: Any, state: SeriesLineage) -> None:
    """Attach the lineage of its levels to the index of a Series, for uses of `series.index`."""
    manager = getattr(series, "_mgr", None)
    if manager is not None:
        levels = union(*(state.index or {}).values())
        # An Index is shared: only the first Series attaches, which is the one the index was created with.
        axis = manager.axes[0]
        if getattr(axis, STATE_ATTR) is None:
            set_state(axis, SeriesLineage(levels, state.index, state.rows))
