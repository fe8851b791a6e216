"""Versions of frames: what a frame was called and looked like at one moment, without any of its data."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from clew.capture.flags import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from clew.capture.datasets import FileDataset
    from clew.capture.provenance import Provenance
    from clew.capture.records import Record

# Where a frame, a Series or a GroupBy carries its state. pandas neither copies, pickles nor writes instance
# attributes of this kind, and they die with the object: no id is ever reused, nothing is kept alive.
STATE = "_clew"
# Where an Index keeps its labels as a list.
_LABELS = "_clew_labels"


def give_state(owner: Any, state: Any) -> None:
    """Let an object carry its state, past what its class does when an attribute is set."""
    # Not by `__dict__`: once an object was asked for that, the interpreter finds all of its attributes more slowly.
    object.__setattr__(owner, STATE, state)


# Beyond this many blocks a frame is fragmented and naming its types would cost more than the operation.
_BLOCKS_READ = 64
TEXT_BYTES = 16
_uids = itertools.count(1)


class FrameVersion(Struct, eq=False, weakref=True):
    """One state of one frame: labels, shape and types, and the record that made it."""

    uid: int = field(default_factory=_uids.__next__)
    columns: Any = ()
    index_names: tuple[Any, ...] = ()
    shape: tuple[int, int] | None = None
    object_id: int = 0
    # The type of each block of columns and their places, in turn: pairs would be many more objects to keep.
    blocks: list[Any] | None = None
    nbytes: int | None = None
    name: str | None = None
    # The log of a session that it stands in, and its number there.
    logged_in: object | None = None
    logged_as: int = 0
    dataset: FileDataset | None = None
    made_by: Record | None = None
    # For a frame that stands in for another inside a callback: the provenance of its columns.
    substitutes: dict[Hashable, Provenance] | None = None
    base: FrameVersion | None = None
    # In a later round of a loop: the version of the first round, under whose name it is told.
    repeats: FrameVersion | None = None
    # Where streams are written: which of its variable's versions it is, and its facets as they were encoded once.
    number: int = 0
    told: Any = None

    @classmethod
    def of(cls, frame: Any, uid: int | None = None) -> FrameVersion:
        """The version that describes `frame` as it is now."""
        manager = frame._mgr
        columns, index = manager.axes
        blocks: list[Any] | None = None
        if len(manager.blocks) <= _BLOCKS_READ:
            blocks = []
            add = blocks.append
            for block in manager.blocks:
                add(block.values.dtype)
                # The attribute, since the property above it would be asked a hundred times in a cell.
                add(block._mgr_locs)
        return cls(
            next(_uids) if uid is None else uid,
            columns,
            index_names(index),
            (len(index), len(columns)),
            id(frame),
            blocks,
        )

    @classmethod
    def standing_in(
        cls, base: FrameVersion | None, columns: Iterable[Hashable], provenances: dict[Hashable, Provenance]
    ) -> FrameVersion:
        """A version without a record of its own, whose columns are other fields."""
        names = base.index_names if base is not None else ()
        return cls(columns=columns, index_names=names, base=base, substitutes=provenances)

    @property
    def is_real(self) -> bool:
        """Whether it describes a frame, instead of standing in for one."""
        return self.substitutes is None and self.base is None

    def has(self, label: Any) -> bool:
        """Whether `label` names a column or an index level."""
        try:
            return label in self.columns or label in self.index_names
        except Exception:  # noqa: BLE001 - an Index refuses a key in ways of its own
            return False

    def field(self, label: Hashable) -> Provenance:
        """The provenance of a column used as it is."""
        if self.substitutes is not None and label in self.substitutes:
            return self.substitutes[label]
        if self.base is not None:
            return self.base.field(label)
        return {(self, label): IDENTITY}

    def fields(self, labels: Iterable[Hashable] | None = None, flags: int = IDENTITY) -> Provenance:
        """The provenance of several columns together, all of them by default."""
        chosen = self.columns if labels is None else labels
        if self.substitutes is None and self.base is None:
            return {(self, label): flags for label in chosen}
        from clew.capture.provenance import through, union

        return union(*[through(self.field(label), flags) for label in chosen])

    def labels(self) -> list[Hashable]:
        """Named index levels, then columns."""
        return [*self.index_names, *listed(self.columns)]

    def size(self) -> int | None:
        """Bytes of data: exact where it was measured or the types say it, with 16 bytes for each text otherwise."""
        if self.nbytes is not None or self.blocks is None or self.shape is None:
            return self.nbytes
        widths = [len(places) * getattr(dtype, "itemsize", TEXT_BYTES) for dtype, places in paired(self.blocks)]
        return self.shape[0] * sum(widths)

    def types(self) -> dict[Hashable, str]:
        """The type of each column, where it is known."""
        if self.blocks is None:
            return {}
        labels = listed(self.columns)
        named = [(str(dtype), places) for dtype, places in paired(self.blocks)]
        return {labels[place]: name for name, places in named for place in places}

    def __repr__(self) -> str:
        return f"<{self.name or 'frame'} {self.uid}>"


def paired(blocks: list[Any]) -> Iterator[tuple[Any, Any]]:
    """The type and the places of each block."""
    parts = iter(blocks)
    return zip(parts, parts, strict=True)


class LabelList(Struct, eq=False, gc=False):
    """The labels of some columns as a list, the log of a session that they stand in, and their number there."""

    labels: list[Hashable]
    logged_in: object | None = None
    logged_as: int = 0


def label_list(columns: Any) -> LabelList:
    """The labels of some columns; an Index keeps them, since versions share it and walking one is slow."""
    # Where pandas itself keeps what was worked out once: `head` and its like make views, which share it.
    kept: dict[str, Any] | None = getattr(columns, "_cache", None)
    if kept is None:
        return LabelList(columns if isinstance(columns, list) else _labels(columns))
    found = kept.get(_LABELS)
    if found is None:
        found = kept[_LABELS] = LabelList(_labels(columns))
    return cast("LabelList", found)


def listed(columns: Any) -> list[Hashable]:
    """The labels of some columns as a list."""
    return label_list(columns).labels


def _labels(columns: Any) -> list[Hashable]:
    """An array gives its list in a fraction of the time that an Index takes to be walked through."""
    values: Any = getattr(columns, "_values", None)
    text = getattr(values, "_pa_array", None)
    if text is None:
        is_array = type(values).__module__ == "numpy" and values.dtype.kind == "O"
        return cast("list[Hashable]", values.tolist()) if is_array else list(columns)
    if text.null_count:
        return list(columns)
    # By way of numpy, unless its types are others: a scalar of Arrow's for each label takes three times as long. Where
    # a column was ever looked up, pandas has such an array already.
    found: Any = getattr(columns._cache.get("_engine"), "values", None)
    if type(found).__module__ != "numpy":
        found = text.to_numpy()
    return cast("list[Hashable]", found.tolist() if found.dtype.kind == "O" else text.to_pylist())


def index_names(index: Any) -> tuple[Hashable, ...]:
    """Names of the levels that have one: a named level is a field of the frame."""
    names = getattr(index, "_names", None)
    if names is None:
        # `index.names` would build a list of its own for the only level.
        name = index._name
        return () if name is None else (name,)
    return tuple([name for name in names if name is not None])
