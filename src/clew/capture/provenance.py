"""Provenance of values: which fields of which frame versions a Series, an array or a scalar came from."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from clew.capture.flags import COMPOSED, DIRECT, IDENTITY, INDIRECT, MARKS
from clew.capture.versions import STATE, give_state, listed

if TYPE_CHECKING:
    from collections.abc import Hashable

    from clew.capture.versions import FrameVersion

Provenance: TypeAlias = "dict[tuple[FrameVersion, Hashable], int]"
# Of an array: the frame that it was made of, or what each of its columns came from.
Columns: TypeAlias = "FrameVersion | list[Provenance]"

_SCALARS_KEPT = 256
_SMALL_INTS = range(-5, 257)


class SeriesState(Struct, eq=False):
    """What a Series carries: its own provenance, that of its named index levels, and what selected its rows."""

    provenance: Provenance
    index: dict[Hashable, Provenance] | None = None
    rows: Provenance | None = None

    def whole(self) -> Provenance:
        """Values and rows together: what a use of this Series as a value depends on."""
        return union(self.provenance, self.rows) if self.rows else self.provenance


def through(provenance: Provenance | None, step: int) -> Provenance:
    """A direct `step` applied to values: their direct part becomes the stronger, their indirect part stays."""
    if not provenance:
        return {}
    if step == IDENTITY:
        return provenance
    composed, marks = COMPOSED[step & DIRECT], step & MARKS
    return {field: composed[flags & DIRECT] | (flags & ~DIRECT) | marks for field, flags in provenance.items()}


def used_for(provenance: Provenance | None, use: int) -> Provenance:
    """An indirect use takes its own type, whatever lies below it."""
    if not provenance:
        return {}
    return {field: use | (flags & MARKS) for field, flags in provenance.items()}


def composed(provenance: Provenance, step: int) -> Provenance:
    """Any set of direct and indirect steps over `provenance`."""
    direct, indirect = step & DIRECT, step & INDIRECT
    if not indirect:
        return through(provenance, step)
    uses = used_for(provenance, indirect | (step & MARKS))
    return union(through(provenance, direct | (step & MARKS)), uses) if direct else uses


def union(*provenances: Provenance | None) -> Provenance:
    """All dependencies of all of them."""
    merged: Provenance = {}
    for provenance in provenances:
        if not provenance:
            continue
        if not merged:
            merged = dict(provenance)
            continue
        for field, flags in provenance.items():
            merged[field] = merged.get(field, 0) | flags
    return merged


def by_position(labels: list[Hashable], sources: list[Provenance]) -> dict[Hashable, Provenance]:
    """The provenance of columns that keep their places; those that share a label share it too."""
    fields: dict[Hashable, Provenance] = {}
    for label, source in zip(labels, sources, strict=False):
        fields[label] = union(fields[label], source) if label in fields else source
    return fields


class _Scalars(threading.local):
    def __init__(self) -> None:
        self.kept: dict[int, tuple[object, Provenance]] = {}


_scalars = _Scalars()
_arrays: dict[int, tuple[weakref.ref[Any], Provenance, Columns | None]] = {}


def remember_array(array: Any, provenance: Provenance | None, columns: Columns | None = None) -> None:
    """Tie `provenance` to an array for as long as it lives, and that of each of its columns if they are told."""
    if not provenance:
        return
    key = id(array)

    # An id() is reused after garbage collection, so the weakref's death must drop the entry.
    def forget(_: object) -> None:
        _arrays.pop(key, None)

    _arrays[key] = (weakref.ref(array, forget), provenance, columns)


def array_provenance(array: Any) -> Provenance | None:
    """The provenance tied to an array, or to the array that it is a view of."""
    entry = _arrays.get(id(array))
    if entry is not None and entry[0]() is array:
        return entry[1]
    base = getattr(array, "base", None)
    return array_provenance(base) if base is not None and base is not array else None


def array_columns(array: Any) -> list[Provenance] | None:
    """The provenance of each column of an array; None if it is not known which is whose."""
    entry = _arrays.get(id(array))
    if entry is None or entry[0]() is not array or entry[2] is None:
        return None
    columns = entry[2]
    return columns if isinstance(columns, list) else [columns.field(label) for label in listed(columns.columns)]


def remember_scalar(value: Any, provenance: Provenance | None) -> None:
    """Tie `provenance` to a scalar: the last 256 of a thread are known by identity."""
    kind = type(value)
    # Values that the interpreter shares would carry one frame's provenance into unrelated code.
    if not provenance or value is None or kind in (bool, str, bytes) or (kind is int and value in _SMALL_INTS):
        return
    kept = _scalars.kept
    if len(kept) >= _SCALARS_KEPT:
        del kept[next(iter(kept))]
    kept[id(value)] = (value, provenance)


def scalar_provenance(value: Any) -> Provenance | None:
    """The provenance tied to this very scalar."""
    entry = _scalars.kept.get(id(value))
    return entry[1] if entry is not None and entry[0] is value else None


def series_state(series: Any) -> SeriesState | None:
    """What a Series or an Index carries, if it was seen before."""
    state = getattr(series, STATE, None)
    return state if type(state) is SeriesState else None


def mark_series(
    series: Any, provenance: Provenance, index: dict[Hashable, Provenance] | None = None, rows: Provenance | None = None
) -> None:
    """Give a Series its state."""
    state = SeriesState(provenance, index, rows)
    give_state(series, state)
    if index or rows:
        mark_index(series, state)


def mark_index(series: Any, state: SeriesState) -> None:
    """Tell the index of a Series where its levels come from, so that `series.index` knows it too."""
    manager = getattr(series, "_mgr", None)
    if manager is not None:
        levels = union(*(state.index or {}).values())
        # The first to be marked is the one that the index was made with: others only share it.
        axis = manager.axes[0]
        if getattr(axis, STATE) is None:
            give_state(axis, SeriesState(levels, state.index, state.rows))
