"""Rules for merge, join, merge_asof and concat."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clew.capture.flags import CONDITIONAL, DIRECT, GROUP_BY, JOIN, MARKS, TRANSFORMATION
from clew.capture.frames.calls import Call, made
from clew.capture.frames.state import as_labels, index_names, is_scalar, known, series_parts, version_of
from clew.capture.guard import user_code
from clew.capture.provenance import Provenance, by_position, mark_series, through, union, used_for
from clew.capture.records import Deferred, Listed
from clew.capture.versions import FrameVersion, listed

if TYPE_CHECKING:
    from collections.abc import Callable

_KEEPS_LEFT_KEY = ("inner", "left", "left_anti")
_ARRAYS = (pd.Series, pd.Index, np.ndarray)


@dataclass(slots=True)
class Join:
    """How two frames are joined, whichever function said so."""

    left: FrameVersion
    right: FrameVersion
    left_keys: list[Any]
    right_keys: list[Any]
    how: str
    suffixes: tuple[str | None, str | None]

    @classmethod
    def of(
        cls, call: Call, left: Any, right: Any, how: str, left_by: Iterable[Any] = (), right_by: Iterable[Any] = ()
    ) -> Join:
        """Read the arguments that `merge` and its relatives share."""
        left_version, right_version = version_of_any(left), version_of_any(right)
        shared = (
            call.kwargs.get("on") if "on" in call.kwargs else call.argument(2, "on") if call.name == "merge" else None
        )
        if how == "cross":
            left_keys: list[Any] = []
            right_keys: list[Any] = []
        elif shared is not None:
            left_keys = right_keys = as_labels(shared)
        else:
            left_keys, right_keys = _keys_of_sides(call, left_version, right_version)
        suffixes = call.kwargs.get("suffixes", ("_x", "_y"))
        left_keys, right_keys = [*left_keys, *left_by], [*right_keys, *right_by]
        return cls(left_version, right_version, left_keys, right_keys, how, (suffixes[0], suffixes[1]))

    def shared_keys(self) -> list[Any]:
        """Keys of the same label on both sides: one column in the result."""
        pairs = zip(self.left_keys, self.right_keys, strict=False)
        return [left for left, right in pairs if is_label(left) and is_label(right) and left == right]

    def rows(self) -> Provenance:
        """The keys of both sides decide which rows meet."""
        keys = [_key(self.left, key) for key in self.left_keys] + [_key(self.right, key) for key in self.right_keys]
        return union(*[used_for(key, JOIN) for key in keys])

    def key_column(self, label: Hashable) -> Provenance:
        """A shared key comes from the side that keeps its rows; from either in an outer join."""
        left, right = _key(self.left, label), _key(self.right, label)
        if self.how in _KEEPS_LEFT_KEY:
            return left
        if self.how in ("right", "right_anti"):
            return right
        both = union(left, right)
        return union(through(both, TRANSFORMATION), used_for(both, CONDITIONAL))

    def edges(self, result: Any) -> Listed:
        """Where every column of the result comes from."""
        levels, columns = index_names(result.index), result.columns
        keys = (*self.left_keys, *self.right_keys)
        if self.left.is_real and self.right.is_real and not any(isinstance(key, _ARRAYS) for key in keys):
            return Deferred.by(self.fields, levels, columns)
        return Listed(self.fields(levels, columns))

    def fields(self, levels: tuple[Hashable, ...], columns: Any) -> dict[Hashable, Provenance]:
        """The provenance of every column of the result: suffixes are emulated, then checked against the real labels."""
        shared = self.shared_keys()
        left_columns = listed(self.left.columns)
        right_columns = [
            label for label in listed(self.right.columns) if label not in shared or label not in left_columns
        ]
        doubled = {label for label in left_columns if label in right_columns and label not in shared}
        fields: dict[Hashable, Provenance] = {}
        for label in left_columns:
            if label in shared:
                fields[label] = self.key_column(label)
            else:
                fields[_suffixed(label, self.suffixes[0]) if label in doubled else label] = self.left.field(label)
        for label in right_columns:
            if label not in shared:
                fields[_suffixed(label, self.suffixes[1]) if label in doubled else label] = self.right.field(label)
        labels = [*levels, *listed(columns)]
        return {label: fields[label] if label in fields else self._elsewhere(label, shared) for label in labels}

    def _elsewhere(self, label: Hashable, shared: list[Any]) -> Provenance:
        if label in shared:
            return self.key_column(label)
        return (
            self.left.field(label) if self.left.has(label) else self.right.field(label) if self.right.has(label) else {}
        )


def _keys_of_sides(call: Call, left: FrameVersion, right: FrameVersion) -> tuple[list[Any], list[Any]]:
    """The keys of a join that names none for both sides together: those of each, or all labels that they share."""
    left_on, right_on = _key_argument(call, 3, "left_on"), _key_argument(call, 4, "right_on")
    left_index, right_index = _key_argument(call, 5, "left_index"), _key_argument(call, 6, "right_index")
    if left_on is None and right_on is None and not left_index and not right_index:
        shared = [label for label in listed(left.columns) if label in right.columns]
        return shared, shared
    return (
        list(left.index_names) if left_index else _keys(left_on),
        list(right.index_names) if right_index else _keys(right_on),
    )


def _key_argument(call: Call, position: int, name: str) -> Any:
    return call.argument(position, name) if call.name == "merge" else call.kwargs.get(name)


def is_label(key: Any) -> bool:
    """Whether a key names a column rather than being the values themselves."""
    return isinstance(key, tuple) or is_scalar(key)


def _keys(given: Any) -> list[Any]:
    if isinstance(given, _ARRAYS):
        return [given]
    return list(given) if isinstance(given, list) else as_labels(given)


def _key(version: FrameVersion, key: Any) -> Provenance:
    if isinstance(key, _ARRAYS):
        return known(key)
    return version.field(key) if version.has(key) else {}


def _suffixed(label: Hashable, suffix: str | None) -> Hashable:
    return label if suffix is None else f"{label}{suffix}"


def version_of_any(operand: Any) -> FrameVersion:
    """The version of a frame, or one that stands in for a Series taken as a frame of one column."""
    if isinstance(operand, pd.DataFrame):
        return version_of(operand)
    state = series_parts(operand)
    levels = {
        name: {field: flags for field, flags in found.items() if flags & DIRECT}
        for name, found in (state.index or {}).items()
    }
    stand_in = FrameVersion.standing_in(None, [operand.name], {operand.name: state.provenance, **levels})
    stand_in.index_names = index_names(operand.index)
    return stand_in


def _inherited_rows(operand: Any) -> Provenance:
    """What selected the rows of a Series that is joined."""
    return series_parts(operand).rows or {} if isinstance(operand, pd.Series) else {}


def _joined(call: Call, join: Join, right: Any, method: str) -> None:
    parents = tuple(side for side in (join.left, join.right) if side.substitutes is None)
    rows = union(join.rows(), _inherited_rows(right))
    if isinstance(right, pd.Series) and all(is_label(key) and key in join.right.index_names for key in join.right_keys):
        rows = _lend_groups(join, right.name, rows)
    made(call, "join", join.edges(call.result), rows, parents, method=method)


def _lend_groups(join: Join, label: Hashable, rows: Provenance) -> Provenance:
    """A Series joined by what it was grouped by: the groups formed its values, which rows meet its keys tell."""
    keys = {field for key in join.right_keys for field in _key(join.right, key)}
    groups = {field: GROUP_BY | (rows[field] & MARKS) for field in keys if rows.get(field, 0) & GROUP_BY}
    join.right.substitutes = {**(join.right.substitutes or {}), label: union(join.right.field(label), groups)}
    return {field: flags & ~GROUP_BY if field in groups else flags for field, flags in rows.items()}


def merge(call: Call) -> None:
    """df.merge(right, ...)."""
    right = call.argument(0, "right")
    join = Join.of(call, call.subject, right, call.argument(1, "how", "inner"))
    call.is_module_function = True  # the documents know it as pandas_merge, however it is called
    _joined(call, join, right, "merge")


def merge_function(call: Call) -> None:
    """pd.merge(left, right, ...)."""
    call.subject, call.args, call.kwargs = _without_left(call)
    merge(call)


def merge_ordered(call: Call) -> None:
    """pd.merge_ordered(left, right, ...)."""
    _merge_by_keyword(call, "merge_ordered", call.kwargs.get("how", "outer"))


def merge_asof(call: Call) -> None:
    """pd.merge_asof(left, right, ...): a left join on the nearest key."""
    _merge_by_keyword(call, "merge_asof", "left")


def _merge_by_keyword(call: Call, method: str, how: str) -> None:
    call.subject, call.args, call.kwargs = _without_left(call)
    right = call.argument(0, "right")
    if len(call.args) > 1:
        call.kwargs = {**call.kwargs, "on": call.args[1]}
    by = call.kwargs.get("by")
    left_by, right_by = (as_labels(call.kwargs.get(name, by)) for name in ("left_by", "right_by"))
    _joined(call, Join.of(call, call.subject, right, how, left_by, right_by), right, method)


def _without_left(call: Call) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    if "left" in call.kwargs:
        return call.kwargs["left"], call.args, {key: value for key, value in call.kwargs.items() if key != "left"}
    return call.args[0], call.args[1:], call.kwargs


def join_method(call: Call) -> None:
    """df.join(other, ...): by the index of the other, from a column or the index of this one."""
    other, on = call.argument(0, "other"), call.argument(1, "on")
    if isinstance(other, (list, tuple)):
        concatenated(call, [call.subject, *other], axis=1)
        return
    left, right = version_of(call.subject), version_of_any(other)
    left_keys = _keys(on) if on is not None else list(left.index_names)
    suffixes = call.kwargs.get("suffixes") or (call.argument(3, "lsuffix", ""), call.argument(4, "rsuffix", ""))
    join = Join(left, right, left_keys, list(right.index_names), call.argument(2, "how", "left"), suffixes)
    _joined(call, join, other, "join")


def concat(call: Call) -> None:
    """pd.concat(objects, ...)."""
    objects = call.argument(0, "objs")
    if isinstance(objects, Kept):
        objects = objects.given
    items = (
        [objects[key] for key in call.kwargs.get("keys") or objects] if isinstance(objects, Mapping) else list(objects)
    )
    concatenated(call, [item for item in items if item is not None], call.argument(1, "axis", 0))


def listed_objects(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A generator can be read once only: pandas reads it through one that keeps what it gave."""
    if "objs" in call.kwargs:
        return call.args, {**call.kwargs, "objs": _kept(call.kwargs["objs"])}
    objects, *rest = call.args
    return (_kept(objects), *rest), call.kwargs


def _kept(objects: Any) -> Any:
    return Kept(objects) if hasattr(objects, "__next__") else objects


class Kept:
    """A generator, whose code is the user's, and the objects that it has given."""

    def __init__(self, objects: Iterator[Any]) -> None:
        self.objects = objects
        self.given: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        """The objects, one by one."""
        return self

    def __next__(self) -> Any:
        """The next object."""
        with user_code():
            self.given.append(next(self.objects))
        return self.given[-1]


def concatenated(call: Call, objects: list[Any], axis: Any) -> None:
    """Union per label along the rows; by position along the columns."""
    result = call.result
    if isinstance(result, pd.Series):
        states = [series_parts(item) for item in objects]
        levels = {
            name: union(*[(state.index or {}).get(name) for state in states]) for name in index_names(result.index)
        }
        mark_series(
            result,
            union(*[state.provenance for state in states]),
            levels or None,
            union(*[state.rows for state in states]) or None,
        )
        return
    sides = [version_of_any(item) for item in objects]
    find = _stacked if axis in (0, "index", "rows") else _side_by_side
    given = (sides, index_names(result.index), result.columns)
    if all(side.is_real for side in sides):
        made(call, "concat", Deferred.by(find, *given), None, tuple(sides))
        return
    rows = union(*[_inherited_rows(item) for item in objects])
    parents = tuple(side for side in sides if side.substitutes is None)
    made(call, "concat", Listed(find(*given)), rows, parents)


def _stacked(sides: list[FrameVersion], levels: tuple[Hashable, ...], columns: Any) -> dict[Hashable, Provenance]:
    fields: dict[Hashable, Provenance] = {}
    for side in sides:
        sources = listed(side.columns)
        # A Series without a name goes below the only column there is.
        labels = sources if side.substitutes is None or sources != [None] else listed(columns)[:1]
        for label, source in zip(labels, sources, strict=False):
            found = side.field(source)
            fields[label] = union(fields[label], found) if label in fields else found
    return fields | _common_levels(sides, levels)


def _side_by_side(sides: list[FrameVersion], levels: tuple[Hashable, ...], columns: Any) -> dict[Hashable, Provenance]:
    sources = [side.field(label) for side in sides for label in listed(side.columns)]
    return by_position(listed(columns), sources) | _common_levels(sides, levels)


def _common_levels(sides: list[FrameVersion], levels: tuple[Hashable, ...]) -> dict[Hashable, Provenance]:
    return {name: union(*[side.field(name) for side in sides if side.has(name)]) for name in levels}


RULES: dict[str, Callable[[Call], None]] = {"merge": merge, "join": join_method}
