"""Rules for merge, join, merge_asof and concat."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from clew.capture.backends.base import Call
from clew.capture.backends.pandas.aggregation import to_key_list
from clew.capture.backends.pandas.call import record_created
from clew.capture.backends.pandas.state import (
    as_labels,
    current_version,
    is_scalar,
    lineage_or_empty,
    provenance_or_empty,
)
from clew.capture.introspection.user_code import strip_frame, tracing_enabled
from clew.capture.lineage.frame_version import FrameVersion, column_labels, index_names
from clew.capture.lineage.operations import ExplicitEdges, LazyEdges
from clew.capture.lineage.provenance import (
    Provenance,
    as_indirect,
    attach_to_series,
    coalesced,
    union,
    zip_by_position,
)
from clew.capture.lineage.transformations import DIRECT, GROUP_BY, JOIN, MARKS

_LEFT_KEY_JOINS = ("inner", "left", "left_anti")
_ARRAYS = (pd.Series, pd.Index, np.ndarray)


@dataclass(slots=True)
class Join:
    """A join of two frames: versions, keys, type and suffixes."""

    left: FrameVersion
    right: FrameVersion
    left_keys: list[Any]
    right_keys: list[Any]
    how: str
    suffixes: tuple[str | None, str | None]

    @classmethod
    def from_call(
        cls, call: Call, left: Any, right: Any, how: str, left_by: Iterable[Any] = (), right_by: Iterable[Any] = ()
    ) -> Join:
        """Parse the arguments that the merge functions share."""
        left_version, right_version = version_of_operand(left), version_of_operand(right)
        on = call.kwargs.get("on") if "on" in call.kwargs else call.argument(2, "on") if call.name == "merge" else None
        if how == "cross":
            left_keys: list[Any] = []
            right_keys: list[Any] = []
        elif on is not None:
            left_keys = right_keys = as_labels(on)
        else:
            left_keys, right_keys = _keys_of_sides(call, left_version, right_version)
        suffixes = call.kwargs.get("suffixes", ("_x", "_y"))
        left_keys, right_keys = [*left_keys, *left_by], [*right_keys, *right_by]
        return cls(left_version, right_version, left_keys, right_keys, how, (suffixes[0], suffixes[1]))

    def shared_keys(self) -> list[Any]:
        """Return the keys with the same label on both sides; they are one column of the result."""
        pairs = zip(self.left_keys, self.right_keys, strict=False)
        return [left for left, right in pairs if is_label(left) and is_label(right) and left == right]

    def rows(self) -> Provenance:
        """Return the keys of both sides as JOIN provenance of the rows."""
        keys = [_key_provenance(self.left, key) for key in self.left_keys] + [
            _key_provenance(self.right, key) for key in self.right_keys
        ]
        return union(*[as_indirect(key, JOIN) for key in keys])

    def key_provenance(self, label: Hashable) -> Provenance:
        """Return the provenance of a shared key: from the preserved side, or from either in an outer join."""
        left, right = _key_provenance(self.left, label), _key_provenance(self.right, label)
        if self.how in _LEFT_KEY_JOINS:
            return left
        if self.how in ("right", "right_anti"):
            return right
        return coalesced(left, right)

    def edges(self, result: Any) -> ExplicitEdges:
        """Return the edges of every column of the result."""
        levels, columns = index_names(result.index), result.columns
        keys = (*self.left_keys, *self.right_keys)
        if self.left.is_real and self.right.is_real and not any(isinstance(key, _ARRAYS) for key in keys):
            return LazyEdges.from_callable(self.fields, levels, columns)
        return ExplicitEdges(self.fields(levels, columns))

    def fields(self, levels: tuple[Hashable, ...], columns: Any) -> dict[Hashable, Provenance]:
        """Return the provenance of every result column; suffixes are emulated and matched with the actual labels."""
        shared = self.shared_keys()
        left_columns = column_labels(self.left.columns)
        right_columns = [
            label for label in column_labels(self.right.columns) if label not in shared or label not in left_columns
        ]
        overlapping = {label for label in left_columns if label in right_columns and label not in shared}
        fields: dict[Hashable, Provenance] = {}
        for label in left_columns:
            if label in shared:
                fields[label] = self.key_provenance(label)
            else:
                fields[_add_suffix(label, self.suffixes[0]) if label in overlapping else label] = self.left.field(label)
        for label in right_columns:
            if label not in shared:
                fields[_add_suffix(label, self.suffixes[1]) if label in overlapping else label] = self.right.field(
                    label
                )
        labels = [*levels, *column_labels(columns)]
        return {label: fields[label] if label in fields else self._fallback_source(label, shared) for label in labels}

    def _fallback_source(self, label: Hashable, shared: list[Any]) -> Provenance:
        if label in shared:
            return self.key_provenance(label)
        return (
            self.left.field(label) if self.left.has(label) else self.right.field(label) if self.right.has(label) else {}
        )


def _keys_of_sides(call: Call, left: FrameVersion, right: FrameVersion) -> tuple[list[Any], list[Any]]:
    """Return the keys of each side; all shared labels if none are specified."""
    left_on, right_on = _key_argument(call, 3, "left_on"), _key_argument(call, 4, "right_on")
    left_index, right_index = _key_argument(call, 5, "left_index"), _key_argument(call, 6, "right_index")
    if left_on is None and right_on is None and not left_index and not right_index:
        shared = [label for label in column_labels(left.columns) if label in right.columns]
        return shared, shared
    return (
        list(left.index_names) if left_index else to_key_list(left_on),
        list(right.index_names) if right_index else to_key_list(right_on),
    )


def _key_argument(call: Call, position: int, name: str) -> Any:
    return call.argument(position, name) if call.name == "merge" else call.kwargs.get(name)


def is_label(key: Any) -> bool:
    """Return whether a key is a column label rather than an array of values."""
    return isinstance(key, tuple) or is_scalar(key)


def _key_provenance(version: FrameVersion, key: Any) -> Provenance:
    if isinstance(key, _ARRAYS):
        return provenance_or_empty(key)
    return version.field(key) if version.has(key) else {}


def _add_suffix(label: Hashable, suffix: str | None) -> Hashable:
    return label if suffix is None else f"{label}{suffix}"


def version_of_operand(operand: Any) -> FrameVersion:
    """Return the version of a frame, or an alias version for a Series used as a one-column frame."""
    if isinstance(operand, pd.DataFrame):
        return current_version(operand)
    lineage = lineage_or_empty(operand)
    levels = {
        name: {field: flags for field, flags in provenance.items() if flags & DIRECT}
        for name, provenance in (lineage.index or {}).items()
    }
    version = FrameVersion.alias_of(None, [operand.name], {operand.name: lineage.provenance, **levels})
    version.index_names = index_names(operand.index)
    return version


def _series_rows(operand: Any) -> Provenance:
    """Return the row provenance of a Series operand."""
    return lineage_or_empty(operand).rows or {} if isinstance(operand, pd.Series) else {}


def _record_join(call: Call, join: Join, right: Any, method: str) -> None:
    parents = tuple(side for side in (join.left, join.right) if side.overrides is None)
    rows = union(join.rows(), _series_rows(right))
    if isinstance(right, pd.Series) and all(is_label(key) and key in join.right.index_names for key in join.right_keys):
        rows = _attach_group_keys(join, right.name, rows)
    record_created(call, join.edges(call.result), rows, parents, method=method)


def _attach_group_keys(join: Join, label: Hashable, rows: Provenance) -> Provenance:
    """Move GROUP_BY from the rows to the values of a Series that is joined on its own group keys."""
    keys = {field for key in join.right_keys for field in _key_provenance(join.right, key)}
    group_keys = {field: GROUP_BY | (rows[field] & MARKS) for field in keys if rows.get(field, 0) & GROUP_BY}
    join.right.overrides = {**(join.right.overrides or {}), label: union(join.right.field(label), group_keys)}
    return {field: flags & ~GROUP_BY if field in group_keys else flags for field, flags in rows.items()}


def trace_merge(call: Call) -> None:
    """Trace df.merge(right, ...)."""
    right = call.argument(0, "right")
    join = Join.from_call(call, call.receiver, right, call.argument(1, "how", "inner"))
    call.is_module_function = True  # always emitted as pandas_merge
    _record_join(call, join, right, "merge")


def trace_merge_ordered(call: Call) -> None:
    """Trace pd.merge_ordered(left, right, ...)."""
    _trace_keyed_merge(call, "merge_ordered", call.kwargs.get("how", "outer"))


def trace_merge_asof(call: Call) -> None:
    """Trace pd.merge_asof(left, right, ...): a left join on the nearest key."""
    _trace_keyed_merge(call, "merge_asof", "left")


def _trace_keyed_merge(call: Call, method: str, how: str) -> None:
    right = call.argument(0, "right")
    if len(call.args) > 1:
        call.kwargs = {**call.kwargs, "on": call.args[1]}
    by = call.kwargs.get("by")
    left_by, right_by = (as_labels(call.kwargs.get(name, by)) for name in ("left_by", "right_by"))
    _record_join(call, Join.from_call(call, call.receiver, right, how, left_by, right_by), right, method)


def trace_join(call: Call) -> None:
    """Trace df.join(other, ...): on the index of `other`, and on a column or the index of the receiver."""
    other, on = call.argument(0, "other"), call.argument(1, "on")
    if isinstance(other, (list, tuple)):
        record_concat(call, [call.receiver, *other], axis=1)
        return
    left, right = current_version(call.receiver), version_of_operand(other)
    left_keys = to_key_list(on) if on is not None else list(left.index_names)
    suffixes = call.kwargs.get("suffixes") or (call.argument(3, "lsuffix", ""), call.argument(4, "rsuffix", ""))
    join = Join(left, right, left_keys, list(right.index_names), call.argument(2, "how", "left"), suffixes)
    _record_join(call, join, other, "join")


def trace_concat(call: Call) -> None:
    """Trace pd.concat(objects, ...)."""
    objects = call.argument(0, "objs")
    if isinstance(objects, TeeIterator):
        objects = objects.items
    items = (
        [objects[key] for key in call.kwargs.get("keys") or objects] if isinstance(objects, Mapping) else list(objects)
    )
    record_concat(call, [item for item in items if item is not None], call.argument(1, "axis", 0))


def buffer_concat_objects(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Wrap a generator argument of concat, so that its items can be traced after pandas has consumed it."""
    if "objs" in call.kwargs:
        return call.args, {**call.kwargs, "objs": _buffer_iterator(call.kwargs["objs"])}
    objects, *rest = call.args
    return (_buffer_iterator(objects), *rest), call.kwargs


def _buffer_iterator(objects: Any) -> Any:
    return TeeIterator(objects) if hasattr(objects, "__next__") else objects


class TeeIterator:
    """Iterator that runs a user's generator with tracing and buffers the items it yields."""

    def __init__(self, objects: Iterator[Any]) -> None:
        self.iterator = objects
        self.items: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        """Return self."""
        return self

    def __next__(self) -> Any:
        """Return the next item and buffer it."""
        try:
            with tracing_enabled():
                self.items.append(next(self.iterator))
            return self.items[-1]
        except BaseException as error:
            strip_frame(error)
            raise


def record_concat(call: Call, objects: list[Any], axis: Any) -> None:
    """Record a concatenation: merge by label along the rows, match by position along the columns."""
    call.kind = "concat"
    result = call.result
    if isinstance(result, pd.Series):
        lineages = [lineage_or_empty(item) for item in objects]
        levels = {
            name: union(*[(lineage.index or {}).get(name) for lineage in lineages])
            for name in index_names(result.index)
        }
        attach_to_series(
            result,
            union(*[lineage.provenance for lineage in lineages]),
            levels or None,
            union(*[lineage.rows for lineage in lineages]) or None,
        )
        return
    sides = [version_of_operand(item) for item in objects]
    build_fields = _concat_axis0 if axis in (0, "index", "rows") else _concat_axis1
    field_args = (sides, index_names(result.index), result.columns)
    if all(side.is_real for side in sides):
        record_created(call, LazyEdges.from_callable(build_fields, *field_args), None, tuple(sides))
        return
    rows = union(*[_series_rows(item) for item in objects])
    parents = tuple(side for side in sides if side.overrides is None)
    record_created(call, ExplicitEdges(build_fields(*field_args)), rows, parents)


def _concat_axis0(sides: list[FrameVersion], levels: tuple[Hashable, ...], columns: Any) -> dict[Hashable, Provenance]:
    fields: dict[Hashable, Provenance] = {}
    for side in sides:
        sources = column_labels(side.columns)
        # A Series without a name is appended to the only column.
        labels = sources if side.overrides is None or sources != [None] else column_labels(columns)[:1]
        for label, source in zip(labels, sources, strict=False):
            provenance = side.field(source)
            fields[label] = union(fields[label], provenance) if label in fields else provenance
    return fields | _common_levels(sides, levels)


def _concat_axis1(sides: list[FrameVersion], levels: tuple[Hashable, ...], columns: Any) -> dict[Hashable, Provenance]:
    sources = [side.field(label) for side in sides for label in column_labels(side.columns)]
    return zip_by_position(column_labels(columns), sources) | _common_levels(sides, levels)


def _common_levels(sides: list[FrameVersion], levels: tuple[Hashable, ...]) -> dict[Hashable, Provenance]:
    return {name: union(*[side.field(name) for side in sides if side.has(name)]) for name in levels}
