"""Versions of frames: what a frame was called and looked like at one moment, without any of its data."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, cast

from clew.capture.flags import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from clew.capture.datasets import FileDataset
    from clew.capture.provenance import Provenance
    from clew.capture.records import Record

# Where a frame, a Series or a GroupBy carries its state. pandas neither copies, pickles nor writes instance
# attributes of this kind, and they die with the object: no id is ever reused, nothing is kept alive.
STATE = "_clew"

# Beyond this many blocks a frame is fragmented and naming its types would cost more than the operation.
_BLOCKS_READ = 64
_TEXT_BYTES = 16
_uids = itertools.count(1)


class FrameVersion:
    """One state of one frame: labels, shape and types, and the record that made it."""

    __slots__ = (
        "__weakref__",
        "base",
        "blocks",
        "columns",
        "dataset",
        "index_names",
        "logged_as",
        "logged_in",
        "made_by",
        "name",
        "nbytes",
        "number",
        "object_id",
        "repeats",
        "shape",
        "substitutes",
        "told",
        "uid",
    )

    # Its number in the log of a session, once it stands in one.
    logged_as: int
    # Where streams are written: which of its variable's versions it is, and its facets as they were encoded once.
    number: int
    told: Any

    def __init__(self, uid: int | None = None) -> None:
        self.uid = uid if uid is not None else next(_uids)
        self.columns: Any = ()
        self.index_names: tuple[Hashable, ...] = ()
        self.shape: tuple[int, int] | None = None
        self.object_id = 0
        self.blocks: tuple[tuple[Any, Any], ...] | None = None
        self.nbytes: int | None = None
        self.name: str | None = None
        self.logged_in: object | None = None
        self.dataset: FileDataset | None = None
        self.made_by: Record | None = None
        # For a frame that stands in for another inside a callback: the provenance of its columns.
        self.substitutes: dict[Hashable, Provenance] | None = None
        self.base: FrameVersion | None = None
        # In a later round of a loop: the version of the first round, under whose name it is told.
        self.repeats: FrameVersion | None = None

    @classmethod
    def of(cls, frame: Any, uid: int | None = None) -> FrameVersion:
        """The version that describes `frame` as it is now."""
        self = cls(uid)
        manager = frame._mgr
        columns, index = manager.axes
        self.columns = columns
        self.index_names = index_names(index)
        self.shape = (len(index), len(columns))
        self.object_id = id(frame)
        blocks = manager.blocks
        if len(blocks) <= _BLOCKS_READ:
            # Its attribute, since the property above it is asked a hundred times in a cell.
            self.blocks = tuple([(block.values.dtype, block._mgr_locs) for block in blocks])
        return self

    @classmethod
    def standing_in(
        cls, base: FrameVersion | None, columns: Iterable[Hashable], provenances: dict[Hashable, Provenance]
    ) -> FrameVersion:
        """A version without a record of its own, whose columns are other fields."""
        self = cls()
        self.base = base
        self.columns = columns
        self.index_names = base.index_names if base is not None else ()
        self.substitutes = provenances
        return self

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
        return sum(
            self.shape[0] * len(places) * getattr(dtype, "itemsize", _TEXT_BYTES) for dtype, places in self.blocks
        )

    def types(self) -> dict[Hashable, str]:
        """The type of each column, where it is known."""
        if self.blocks is None:
            return {}
        labels = listed(self.columns)
        named = [(str(dtype), places) for dtype, places in self.blocks]
        return {labels[place]: name for name, places in named for place in places}

    def __repr__(self) -> str:
        return f"<{self.name or 'frame'} {self.uid}>"


_LISTS_KEPT = 256
_lists: dict[int, tuple[Any, list[Hashable]]] = {}


def listed(columns: Any) -> list[Hashable]:
    """The labels of an Index as a list; versions share their Index, and walking one is slow."""
    known = _lists.get(id(columns))
    if known is not None and known[0] is columns:
        return known[1]
    labels = _labels(columns)
    if len(_lists) >= _LISTS_KEPT:
        _lists.pop(next(iter(_lists)), None)
    _lists[id(columns)] = (columns, labels)
    return labels


def _labels(columns: Any) -> list[Hashable]:
    """An array gives its list in a fraction of the time that an Index takes to be walked through."""
    values: Any = getattr(columns, "_values", None)
    if getattr(getattr(values, "dtype", None), "kind", "") == "O" and type(values).__module__ == "numpy":
        return cast("list[Hashable]", values.tolist())
    text = getattr(values, "_pa_array", None)
    return text.to_pylist() if text is not None and not text.null_count else list(columns)


def index_names(index: Any) -> tuple[Hashable, ...]:
    """Names of the levels that have one: a named level is a field of the frame."""
    names = getattr(index, "_names", None)
    if names is None:
        # `index.names` would build a list of its own for the only level.
        return () if index.name is None else (index.name,)
    return tuple([name for name in names if name is not None])
