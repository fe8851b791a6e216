"""Frame versions: name, labels, shape and types of a frame at one moment, without its data."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from clew.capture.lineage.transformations import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from clew.capture.lineage.datasets import ExternalDataset
    from clew.capture.lineage.operations import OperationRecord
    from clew.capture.lineage.provenance import Provenance

# Attribute of a frame, a Series or a GroupBy that holds its state. pandas neither copies, pickles nor writes such
# instance attributes, and they are freed with the object.
STATE_ATTR = "_clew"
# Key in the cache of an Index for its labels as a list.
_LABELS_KEY = "_clew_labels"


def set_state(owner: Any, state: Any) -> None:
    """Set the state attribute, bypassing `__setattr__` of the class."""
    # Not through `__dict__`: materializing it slows down all later attribute access of the object.
    object.__setattr__(owner, STATE_ATTR, state)


def get_state(owner: Any) -> Any:
    """Return the state attribute of any object of the user, or None.

    Without its `__getattr__`, which may ask a database for a column of that name.
    """
    try:
        return object.__getattribute__(owner, STATE_ATTR)
    except AttributeError:
        return None


TEXT_ITEM_BYTES = 16
new_uid = itertools.count(1).__next__


class FrameVersion(Struct, eq=False, weakref=True):
    """One state of one frame: labels, shape, types and the record that produced it."""

    uid: int = field(default_factory=new_uid)
    columns: Any = ()
    index_names: tuple[Any, ...] = ()
    shape: tuple[int, int] | None = None
    object_id: int = 0
    # Flat list of dtype and column positions of each block; pairs would allocate many more objects.
    blocks: list[Any] | None = None
    nbytes: int | None = None
    # Whether its metrics were computed, and whether `nbytes` is an estimate.
    is_measured: bool = False
    is_size_estimated: bool = False
    name: str | None = None
    # Name of the backend that holds the frame.
    engine: str = "pandas"
    # The kernel log generation it was written to, and its number there.
    log_generation: object | None = None
    log_number: int = 0
    dataset: ExternalDataset | None = None
    made_by: OperationRecord | None = None
    # For an alias inside a callback: the provenance of its columns.
    overrides: dict[Hashable, Provenance] | None = None
    base: FrameVersion | None = None
    # In a later loop iteration: the version of the first iteration, which gives the name in events.
    first_iteration: FrameVersion | None = None
    # Size of a file that was written.
    file_bytes: int | None = None
    # Used when events are written: descriptions of columns, version number of its variable, and its encoded facets.
    descriptions: dict[str, str] | None = None
    number: int = 0
    encoded_facets: Any = None

    @classmethod
    def alias_of(
        cls, base: FrameVersion | None, columns: Iterable[Hashable], provenances: dict[Hashable, Provenance]
    ) -> FrameVersion:
        """Create an alias: a version without a record, with columns that are fields of other versions."""
        names = base.index_names if base is not None else ()
        return cls(columns=columns, index_names=names, base=base, overrides=provenances)

    @property
    def is_real(self) -> bool:
        """Return whether it describes a frame and is not an alias."""
        return self.overrides is None and self.base is None

    def has(self, label: Any) -> bool:
        """Return whether `label` names a column or an index level."""
        try:
            return label in self.columns or label in self.index_names
        except Exception:  # noqa: BLE001 - an Index may raise any error for a key
            return False

    def field(self, label: Hashable) -> Provenance:
        """Return the provenance of an unchanged column."""
        if self.overrides is not None and label in self.overrides:
            return self.overrides[label]
        if self.base is not None:
            return self.base.field(label)
        return {(self, label): IDENTITY}

    def fields(self, labels: Iterable[Hashable] | None = None, flags: int = IDENTITY) -> Provenance:
        """Return the merged provenance of several columns, by default of all."""
        chosen = self.columns if labels is None else labels
        if self.overrides is None and self.base is None:
            return {(self, label): flags for label in chosen}
        from clew.capture.lineage.provenance import apply_direct, union

        return union(*[apply_direct(self.field(label), flags) for label in chosen])

    def levels(self) -> dict[Hashable, Provenance]:
        """Return the provenance of the named index levels."""
        return {name: self.field(name) for name in self.index_names}

    def labels(self) -> list[Hashable]:
        """Return named index levels, then columns."""
        return [*self.index_names, *column_labels(self.columns)]

    def size(self) -> int | None:
        """Return the size in bytes: measured, or computed from the types with 16 bytes per text."""
        if self.nbytes is not None or self.blocks is None or self.shape is None:
            return self.nbytes
        widths = [
            len(positions) * getattr(dtype, "itemsize", TEXT_ITEM_BYTES)
            for dtype, positions in iter_blocks(self.blocks)
        ]
        return self.shape[0] * sum(widths)

    def types(self) -> dict[Hashable, str]:
        """Return the type of each column where known."""
        if self.blocks is None:
            return {}
        labels = column_labels(self.columns)
        named = [(str(dtype), positions) for dtype, positions in iter_blocks(self.blocks)]
        return {labels[position]: name for name, positions in named for position in positions}

    def __repr__(self) -> str:
        return f"<{self.name or 'frame'} {self.uid}>"


def iter_blocks(blocks: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Iterate over dtype and column positions of each block."""
    items = iter(blocks)
    return zip(items, items, strict=True)


class ColumnLabels(Struct, eq=False, gc=False):
    """Column labels as a list, the kernel log generation they were written to, and their number there."""

    labels: list[Hashable]
    log_generation: object | None = None
    log_number: int = 0


def cached_labels(columns: Any) -> ColumnLabels:
    """Return column labels, cached on the Index: versions share it and iterating one is slow."""
    # The cache of pandas itself: views, as from `head`, share it.
    cache: dict[str, Any] | None = getattr(columns, "_cache", None)
    if cache is None:
        return ColumnLabels(columns if isinstance(columns, list) else _list_labels(columns))
    labels = cache.get(_LABELS_KEY)
    if labels is None:
        labels = cache[_LABELS_KEY] = ColumnLabels(_list_labels(columns))
    return cast("ColumnLabels", labels)


def column_labels(columns: Any) -> list[Hashable]:
    """Return column labels as a list."""
    return cached_labels(columns).labels


def _list_labels(columns: Any) -> list[Hashable]:
    """List the labels through the underlying array, which is much faster than iterating an Index."""
    values: Any = getattr(columns, "_values", None)
    text = getattr(values, "_pa_array", None)
    if text is None:
        is_array = type(values).__module__ == "numpy" and values.dtype.kind == "O"
        return cast("list[Hashable]", values.tolist()) if is_array else list(columns)
    if text.null_count:
        return list(columns)
    # Through numpy where the dtype is object: an Arrow scalar per label is three times slower. After a column lookup
    # pandas has such an array already.
    values_array: Any = getattr(columns._cache.get("_engine"), "values", None)
    if type(values_array).__module__ != "numpy":
        values_array = text.to_numpy()
    return cast("list[Hashable]", values_array.tolist() if values_array.dtype.kind == "O" else text.to_pylist())


def index_names(index: Any) -> tuple[Hashable, ...]:
    """Return the names of named index levels: a named level is a field of the frame."""
    names = getattr(index, "_names", None)
    if names is None:
        # `index.names` would build a list for a single level.
        name = index._name
        return () if name is None else (name,)
    return tuple([name for name in names if name is not None])
