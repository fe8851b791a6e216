"""Rules for choosing rows and columns of a frame."""

from __future__ import annotations

import sys
import time
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.core.generic import NDFrame

from clew.capture.flags import CONDITIONAL, FILTER, IDENTITY, JOIN, SORT, TRANSFORMATION
from clew.capture.frames.callbacks import evaluated, is_callback
from clew.capture.frames.calls import Call, changed, failed, made, made_or_changed, spread
from clew.capture.frames.functions import used_outside
from clew.capture.frames.hooks import replace
from clew.capture.frames.series import entry, mask_uses
from clew.capture.frames.state import as_labels, given_levels, is_mask, known, levels_named, used_as, version_of
from clew.capture.guard import guard
from clew.capture.losses import count_loss
from clew.capture.provenance import Provenance, SeriesState, by_position, mark_series, through, union, used_for
from clew.capture.records import Deferred, Listed, SameLabels
from clew.capture.statements import note_read
from clew.capture.versions import STATE, FrameVersion, give_state, index_names, listed

if TYPE_CHECKING:
    from collections.abc import Callable


_clock = time.perf_counter
_ATTRIBUTE = NDFrame.__getattr__.__code__


def hook_getitem() -> None:
    """`df[key]`: the most frequent call of all, so it has a wrapper of its own."""
    original = pd.DataFrame.__getitem__

    def __getitem__(self: Any, key: Any) -> Any:  # noqa: N807 - stands in for the method
        if guard.depth:
            return original(self, key)
        frame = sys._getframe(1)
        if frame.f_code is _ATTRIBUTE and frame.f_back is not None:
            # `df.a` reads the column in pandas' own code, for whoever asked for the attribute.
            frame = frame.f_back
        version = _version(self)
        if key.__class__ is not str and is_callback(key):
            key = evaluated(key, self)
        guard.depth = 1
        started = _clock()
        try:
            try:
                result = original(self, key)
            except Exception as error:
                call = Call("__getitem__", self, (key,), {}, version, frame)
                call.started = started
                failed(call, error)
                raise
            try:
                if version is not None:
                    _chosen(self, key, result, version, frame, started)
            except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
                count_loss("__getitem__", error)
        finally:
            guard.depth = 0
        return result

    replace(pd.DataFrame, "__getitem__", __getitem__)


def _version(frame: Any) -> FrameVersion | None:
    try:
        return version_of(frame)
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        count_loss("__getitem__", error)
        return None


def _chosen(frame: Any, key: Any, result: Any, version: FrameVersion, caller: Any, started: float) -> None:
    if isinstance(result, pd.Series):
        column = version.field(key)
        levels = {name: version.field(name) for name in version.index_names} if version.index_names else None
        give_state(result, SeriesState(column, levels))
        note_read(caller, column)
        return
    call = Call("__getitem__", frame, (key,), {}, version, caller)
    call.result, call.started, call.ended = result, started, _clock()
    if isinstance(key, pd.DataFrame) or (isinstance(key, np.ndarray) and key.ndim > 1):
        masked_cells(call, key, None)
    else:
        rows = mask_uses(key, call, FILTER) if is_mask(key) else None
        edges = _of_level(key, version) if isinstance(version.columns, pd.MultiIndex) else None
        made(call, "selection", edges or SameLabels(version), rows, (version,))
        note_read(caller, getattr(result, STATE))


def _of_level(key: Any, version: FrameVersion) -> Listed | None:
    """`df["a"]` of columns ("a", "x"), ("a", "y"): the columns of the result are "x" and "y"."""
    if not isinstance(key, Hashable) or not version.has(key):
        return None
    head = key if isinstance(key, tuple) else (key,)
    fields: dict[Hashable, Provenance] = {name: version.field(name) for name in version.index_names}
    for label in version.columns:
        if label[: len(head)] == head:
            tail = label[len(head) :]
            fields[tail[0] if len(tail) == 1 else tail] = version.field(label)
    return Listed(fields)


def masked_cells(call: Call, condition: Any, other: Any) -> None:
    """`df[mask_frame]`, where, mask: each cell by the condition of its own column."""
    version: FrameVersion = call.before
    target = call.target
    fields = {
        label: union(
            through(version.field(label), TRANSFORMATION),
            used_for(of_column(condition, label), CONDITIONAL),
            through(of_column(other, label), TRANSFORMATION),
        )
        for label in target.columns
    }
    made_or_changed(call, "transformation", SameLabels(version, IDENTITY, fields))


def of_column(value: Any, label: Hashable) -> Provenance:
    """The provenance of an operand as far as it meets one column."""
    if isinstance(value, pd.DataFrame):
        version = version_of(value)
        return version.field(label) if version.has(label) else {}
    if isinstance(value, dict):
        return known(value.get(label))
    return known(value)


def entry_of(value: Any, label: Hashable) -> Provenance:
    """The same for a Series that is laid along the columns, such as `df.mean()`: its entry of that label."""
    found = of_column(value, label)
    return entry(found, label) if isinstance(value, pd.Series) else found


def where(call: Call) -> None:
    """DataFrame.where, DataFrame.mask."""
    masked_cells(call, call.argument(0, "cond"), call.argument(1, "other"))


def same_columns(call: Call) -> None:
    """Rows or columns were chosen by position, label or type: nothing was computed."""
    version: FrameVersion = call.before
    if call.is_in_place:
        changed(call, "selection", SameLabels(version))
    elif isinstance(call.result, pd.DataFrame):
        made(call, "selection", SameLabels(version), None, (version,))
    elif isinstance(call.result, pd.Series):
        label = call.result.name
        provenance = version.field(label) if version.has(label) else version.fields()
        mark_series(call.result, provenance, {name: version.field(name) for name in version.index_names} or None)
    else:
        spread(call, version.fields())


def cross_section(call: Call) -> None:
    """df.xs(key, axis, level): of the columns, those that the key chose, by position."""
    version: FrameVersion = call.before
    key, axis, level = (call.argument(place, name) for place, name in enumerate(("key", "axis", "level")))
    if axis not in (1, "columns") or not isinstance(version.columns, pd.MultiIndex):
        same_columns(call)
        return
    chosen, _ = version.columns.get_loc_level(key, level=0 if level is None else level)
    labels = [version.columns[chosen]] if isinstance(chosen, int) else listed(version.columns[chosen])
    sources = [version.field(label) for label in labels]
    if not isinstance(call.result, pd.DataFrame):
        spread(call, union(*sources))
        return
    fields = {name: version.field(name) for name in version.index_names}
    made(call, "selection", Listed(fields | by_position(listed(call.result.columns), sources)), None, (version,))


def by_values(position: int, name: str, use: int, *, all_by_default: bool) -> Callable[[Call], None]:
    """Rows chosen or ordered by the values of some columns."""

    def rule(call: Call) -> None:
        version: FrameVersion = call.before
        given = call.argument(position, name)
        labels = [label for label in as_labels(given) if version.has(label)]
        if given is None and all_by_default:
            labels = list(version.columns)
        rows = union(*[used_for(version.field(label), use) for label in labels])
        if call.kwargs.get("key") is not None:
            rows = union(rows, used_for(used_outside(call.kwargs["key"], call.frame), use))
        made_or_changed(call, "sort" if use == SORT else "selection", SameLabels(version), rows)

    return rule


def sorted_by_index(call: Call) -> None:
    """df.sort_index(level=...): ordered by the named levels, as by columns."""
    version: FrameVersion = call.before
    by_columns = call.kwargs.get("axis", 0) in (1, "columns")
    names = [] if by_columns else levels_named(call.subject, call.kwargs.get("level")) or version.index_names
    rows = union(*[used_for(version.field(name), SORT) for name in names])
    made_or_changed(call, "sort", SameLabels(version), rows)


def dropna(call: Call) -> None:
    """DataFrame.dropna: rows go by the columns looked at; with axis=1 columns go and no row does."""
    version: FrameVersion = call.before
    if call.argument(99, "axis", 0) in (1, "columns"):
        made_or_changed(call, "selection", SameLabels(version))
        return
    subset = call.kwargs.get("subset")
    labels = version.columns if subset is None else [label for label in as_labels(subset) if version.has(label)]
    rows = union(*[used_for(version.field(label), FILTER) for label in labels])
    made_or_changed(call, "selection", SameLabels(version), rows)


def duplicated(call: Call) -> None:
    """DataFrame.duplicated: a mask computed from the columns looked at."""
    version: FrameVersion = call.before
    labels = as_labels(call.argument(0, "subset")) or None
    mark_series(call.result, version.fields(labels, TRANSFORMATION))


def sampled(call: Call) -> None:
    """df.sample(weights=...): what weighs the rows chooses them."""
    version: FrameVersion = call.before
    weights = call.argument(3, "weights")
    by_label = isinstance(weights, str) and version.has(weights)
    rows = used_for(version.field(weights), FILTER) if by_label else used_as(weights, FILTER)
    made(call, "selection", SameLabels(version), rows, (version,))


def dropped(call: Call) -> None:
    """df.drop(labels): rows by an index that knows what chose it."""
    by_columns = call.argument(1, "axis", 0) in (1, "columns")
    given = call.kwargs.get("index", None if by_columns else call.argument(0, "labels"))
    rows = used_as(given, FILTER) if isinstance(given, (pd.Index, pd.Series)) else None
    made_or_changed(call, "selection", SameLabels(call.before), rows)


def reindexed(call: Call) -> None:
    """df.reindex(labels): rows are looked up by labels that may come from elsewhere."""
    version: FrameVersion = call.before
    by_columns = call.kwargs.get("axis", 0) in (1, "columns")
    labels = call.kwargs.get("index", None if by_columns else call.argument(0, "labels"))
    wanted = known(labels)
    if not wanted:
        same_columns(call)
        return
    # A column of that name keeps what it has.
    levels = given_levels(labels, [name for name in index_names(call.result.index) if name not in version.columns])
    rows = union(used_for(wanted, JOIN), *[used_for(version.field(name), JOIN) for name in version.index_names])
    made(call, "selection", SameLabels(version, IDENTITY, levels), rows, (version,))


def levelled(call: Call) -> None:
    """droplevel, swaplevel, reorder_levels: of the columns by position, of the index nothing changes."""
    axis = call.argument(2 if call.name == "swaplevel" else 1, "axis", 0)
    if axis in (1, "columns"):
        renamed(call)
    else:
        same_columns(call)


def renamed(call: Call) -> None:
    """rename, add_prefix, set_axis: columns keep their places and get other labels."""
    version: FrameVersion = call.before
    target = call.target
    if not isinstance(target, pd.DataFrame):
        return
    if len(target.columns) != len(version.columns):
        made_or_changed(call, "transformation", SameLabels(version))
        return
    given = (version, target.columns, index_names(target.index))
    edges = Deferred.by(_by_place, *given) if version.is_real else Listed(_by_place(*given))
    made_or_changed(call, "transformation", edges)


def _by_place(version: FrameVersion, columns: Any, levels: tuple[Hashable, ...]) -> dict[Hashable, Provenance]:
    fields = by_position(listed(columns), [version.field(before) for before in listed(version.columns)])
    # An index level may have been renamed too: levels keep their order.
    for before, after in zip(version.index_names, levels, strict=False):
        fields.setdefault(after, version.field(before))
    return fields


def set_index(call: Call) -> None:
    """set_index: columns become named levels; a Series given as key brings its own provenance."""
    version: FrameVersion = call.before
    keys = call.argument(0, "keys")
    given = keys if isinstance(keys, list) else [keys]
    brought = {key.name: known(key) for key in given if isinstance(key, (pd.Series, pd.Index))}
    made_or_changed(call, "transformation", SameLabels(version, IDENTITY, brought or None))


def reset_index(call: Call) -> None:
    """reset_index: named levels become columns of the same, or the given, names."""
    version: FrameVersion = call.before
    names = call.kwargs.get("names")
    levels = as_labels(names) if names is not None else list(version.index_names)
    found = dict(zip(levels, [version.field(level) for level in version.index_names], strict=False))
    given: dict[Hashable, Provenance] | None = found if names is not None else None
    if isinstance(version.columns, pd.MultiIndex):
        # The level "k" becomes the column ("k", "").
        new = [label for label in call.target.columns if not version.has(label)]
        given = {label: next((found[part] for part in label if part in found), {}) for label in new}
    made_or_changed(call, "transformation", SameLabels(version, IDENTITY, given))


def popped(call: Call) -> None:
    """df.pop(label): the column leaves and is returned."""
    mark_series(call.result, call.before.field(call.argument(0, "item")))
    changed(call, "selection", SameLabels(call.before))


def deleted(call: Call) -> None:
    """del df[label]."""
    changed(call, "selection", SameLabels(call.before))


def handed_out(call: Call) -> None:
    """df.to_dict(), df.to_records(): plain values, of which nothing is seen until they are back in a frame."""
    note_read(call.frame, call.before)


def aligned(call: Call) -> None:
    """df.align(other): both come back with the same labels."""
    other = call.argument(0, "other")
    for source, result in zip((call.subject, other), call.result, strict=True):
        if isinstance(source, pd.DataFrame) and isinstance(result, pd.DataFrame):
            version = version_of(source)
            made(call, "selection", SameLabels(version), None, (version,), frame=result)


SAME_COLUMNS = (
    "copy set_flags head tail take truncate between_time at_time reindex_like asfreq infer_objects "
    "squeeze filter select_dtypes __copy__ __deepcopy__ get asof first last"
).split()

RULES: dict[str, Callable[[Call], None]] = {
    **dict.fromkeys(SAME_COLUMNS, same_columns),
    **dict.fromkeys(("droplevel", "swaplevel", "reorder_levels"), levelled),
    "xs": cross_section,
    "sample": sampled,
    "reindex": reindexed,
    "drop": dropped,
    "sort_index": sorted_by_index,
    "sort_values": by_values(0, "by", SORT, all_by_default=False),
    "nlargest": by_values(1, "columns", SORT, all_by_default=False),
    "nsmallest": by_values(1, "columns", SORT, all_by_default=False),
    "drop_duplicates": by_values(0, "subset", FILTER, all_by_default=True),
    "dropna": dropna,
    "duplicated": duplicated,
    "rename": renamed,
    "rename_axis": renamed,
    "add_prefix": renamed,
    "add_suffix": renamed,
    "set_axis": renamed,
    "set_index": set_index,
    "reset_index": reset_index,
    "pop": popped,
    "__delitem__": deleted,
    "align": aligned,
    "where": where,
    "mask": where,
}
