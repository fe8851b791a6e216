"""Rules of row and column selection, sorting, renaming and iteration."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast

import numpy as np
import pandas as pd
from pandas.core.generic import NDFrame
from pandas.core.groupby import DataFrameGroupBy, SeriesGroupBy

from clew.capture.backends.base import Call, Rule, record_failure
from clew.capture.backends.pandas.aggregation import groupby_lineage, to_key_list
from clew.capture.backends.pandas.call import (
    assign_to_result,
    record_created,
    record_mutated,
    record_result,
    record_value,
)
from clew.capture.backends.pandas.groupby import record_group
from clew.capture.backends.pandas.inference import closure_provenance, evaluate_early, is_callback
from clew.capture.backends.pandas.patching import patches
from clew.capture.backends.pandas.series import entry_for_label, mask_provenance
from clew.capture.backends.pandas.state import (
    as_labels,
    current_version,
    indirect_use,
    is_mask,
    level_provenance,
    provenance_of,
    provenance_or_empty,
    resolve_level_names,
)
from clew.capture.diagnostics import record_error
from clew.capture.introspection.read_tracking import record_read, record_scalar
from clew.capture.introspection.user_code import guard, strip_frame
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion, column_labels, index_names, set_state
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges, LazyEdges
from clew.capture.lineage.provenance import (
    Provenance,
    SeriesLineage,
    as_indirect,
    attach_to_series,
    conditional,
    union,
    zip_by_position,
)
from clew.capture.lineage.transformations import AGGREGATION, FILTER, IDENTITY, JOIN, SORT, TRANSFORMATION

_clock = time.perf_counter
_GETATTR_CODE = NDFrame.__getattr__.__code__


def patch_frame_getitem() -> None:
    """Patch `df[key]` with a dedicated wrapper, since it is the most frequent call."""
    original = pd.DataFrame.__getitem__

    def __getitem__(self: Any, key: Any) -> Any:  # noqa: N807 - replaces the method
        if guard.depth:
            try:
                return original(self, key)
            except BaseException as error:
                strip_frame(error)
                raise
        caller = sys._getframe(1)
        if caller.f_code is _GETATTR_CODE and caller.f_back is not None:
            # `df.a` calls this from pandas' `__getattr__`.
            caller = caller.f_back
        version = _version_or_none(self)
        if key.__class__ is not str and is_callback(key):
            key = evaluate_early(key, self)
        guard.depth = 1
        started = _clock()
        try:
            try:
                result = original(self, key)
            except BaseException as error:
                strip_frame(error)
                call = Call("__getitem__", self, (key,), {}, version, caller)
                call.started = started
                record_failure(call, error, "pandas")
                raise
            try:
                if version is not None:
                    _trace_getitem(self, key, result, version, caller, started)
            except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
                record_error("__getitem__", error)
        finally:
            guard.depth = 0
        return result

    patches.replace(pd.DataFrame, "__getitem__", __getitem__)


def _version_or_none(frame: Any) -> FrameVersion | None:
    try:
        return current_version(frame)
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        record_error("__getitem__", error)
        return None


def _trace_getitem(frame: Any, key: Any, result: Any, version: FrameVersion, caller: Any, started: float) -> None:
    if isinstance(result, pd.Series):
        column = version.field(key)
        levels = version.levels() if version.index_names else None
        set_state(result, SeriesLineage(column, levels))
        if not record_read(caller, column):
            return
    call = Call("__getitem__", frame, (key,), {}, version, caller, "selection")
    call.result, call.started, call.ended = result, started, _clock()
    if isinstance(result, pd.Series):
        record_value(call)
        return
    if isinstance(key, pd.DataFrame) or (isinstance(key, np.ndarray) and key.ndim > 1):
        record_masked_cells(call, key, None)
    else:
        rows = mask_provenance(key, call, FILTER) if is_mask(key) else None
        edges = sublevel_edges(key, version) if isinstance(version.columns, pd.MultiIndex) else None
        record_created(call, edges or IdentityEdges(version), rows, (version,))
        record_read(caller, getattr(result, STATE_ATTR))


def sublevel_edges(key: Any, version: FrameVersion) -> ExplicitEdges | None:
    """Return the edges of `df["a"]` for columns ("a", "x"), ("a", "y"): the result has columns "x" and "y"."""
    if not isinstance(key, Hashable) or not version.has(key):
        return None
    head = key if isinstance(key, tuple) else (key,)
    fields: dict[Hashable, Provenance] = version.levels()
    for label in version.columns:
        if label[: len(head)] == head:
            tail = label[len(head) :]
            fields[tail[0] if len(tail) == 1 else tail] = version.field(label)
    return ExplicitEdges(fields)


def record_masked_cells(call: Call, condition: Any, other: Any) -> None:
    """Record `df[mask_frame]`, where, mask: each column depends on its own condition."""
    call.kind = "transformation"
    version: FrameVersion = call.pre_state
    output = call.output_frame
    fields = {
        label: conditional(
            union(version.field(label), provenance_for_column(other, label)), provenance_for_column(condition, label)
        )
        for label in output.columns
    }
    record_result(call, IdentityEdges(version, IDENTITY, fields))


def provenance_for_column(value: Any, label: Hashable) -> Provenance:
    """Return the provenance of an operand that is aligned with one column."""
    if isinstance(value, pd.DataFrame):
        version = current_version(value)
        return version.field(label) if version.has(label) else {}
    if isinstance(value, dict):
        return provenance_or_empty(value.get(label))
    return provenance_or_empty(value)


def provenance_for_label(value: Any, label: Hashable) -> Provenance:
    """Return the same, but only the entry for the label of a Series aligned with the columns, such as `df.mean()`."""
    provenance = provenance_for_column(value, label)
    return entry_for_label(provenance, label) if isinstance(value, pd.Series) else provenance


def trace_where(call: Call) -> None:
    """Trace DataFrame.where, DataFrame.mask."""
    record_masked_cells(call, call.argument(0, "cond"), call.argument(1, "other"))


def trace_selection(call: Call) -> None:
    """Trace a selection of rows or columns by position, label or type."""
    version: FrameVersion = call.pre_state
    if call.is_in_place or isinstance(call.result, pd.DataFrame):
        record_result(call, IdentityEdges(version))
    elif isinstance(call.result, pd.Series):
        label = call.result.name
        provenance = version.field(label) if version.has(label) else version.fields()
        attach_to_series(call.result, provenance, version.levels() or None)
    else:
        assign_to_result(call, version.fields())


def trace_take(call: Call) -> None:
    """Trace df.take(positions): rows by position, unless columns are taken."""
    by_columns = call.argument(1, "axis") in (1, "columns")
    rows = {} if by_columns else indirect_use(call.first_argument(), FILTER)
    record_result(call, IdentityEdges(call.pre_state), rows)


def label_lookup(receiver: Any, version: FrameVersion, key: Any, use: int) -> Provenance:
    """Return the provenance of rows that are selected by labels: that of the named levels that are compared."""
    depth = len(key) if isinstance(key, tuple) else 1
    levels = version.levels()
    return union(*[as_indirect(levels[name], use) for name in receiver.index.names[:depth] if name in levels])


def trace_xs(call: Call) -> None:
    """Trace df.xs(key, axis, level): columns selected by the key are matched by position."""
    version: FrameVersion = call.pre_state
    key, axis, level = (call.argument(position, name) for position, name in enumerate(("key", "axis", "level")))
    if axis not in (1, "columns"):
        names = resolve_level_names(call.receiver, level)
        rows = (
            label_lookup(call.receiver, version, key, FILTER)
            if level is None
            else union(*[as_indirect(version.field(name), FILTER) for name in names])
        )
        if isinstance(call.result, pd.DataFrame):
            record_result(call, IdentityEdges(version), rows)
        else:
            attach_to_series(call.result, version.fields(), version.levels() or None, rows or None)
        return
    if not isinstance(version.columns, pd.MultiIndex):
        trace_selection(call)
        return
    locations, _ = version.columns.get_loc_level(key, level=0 if level is None else level)
    labels = [version.columns[locations]] if isinstance(locations, int) else column_labels(version.columns[locations])
    sources = [version.field(label) for label in labels]
    if not isinstance(call.result, pd.DataFrame):
        assign_to_result(call, union(*sources))
        return
    fields = version.levels()
    record_created(
        call,
        ExplicitEdges(fields | zip_by_position(column_labels(call.result.columns), sources)),
        None,
        (version,),
    )


def rows_by_columns_rule(position: int, name: str, use: int, *, all_by_default: bool = False) -> Rule:
    """Build a rule for selecting or sorting rows by the values of columns."""

    def rule(call: Call) -> None:
        version: FrameVersion = call.pre_state
        argument = call.argument(position, name)
        labels = [label for label in as_labels(argument) if version.has(label)]
        if argument is None and all_by_default:
            labels = list(version.columns)
        rows = union(*[as_indirect(version.field(label), use) for label in labels])
        if call.kwargs.get("key") is not None:
            rows = union(rows, as_indirect(closure_provenance(call.kwargs["key"], call.caller), use))
        record_result(call, IdentityEdges(version), rows)

    return rule


def trace_sort_index(call: Call) -> None:
    """Trace df.sort_index(level=...): sorted by the named levels."""
    version: FrameVersion = call.pre_state
    by_columns = call.kwargs.get("axis", 0) in (1, "columns")
    names = [] if by_columns else resolve_level_names(call.receiver, call.kwargs.get("level")) or version.index_names
    rows = union(*[as_indirect(version.field(name), SORT) for name in names])
    record_result(call, IdentityEdges(version), rows)


def trace_dropna(call: Call) -> None:
    """Trace DataFrame.dropna: the subset columns filter rows; with axis=1 no rows are dropped."""
    version: FrameVersion = call.pre_state
    if call.argument(99, "axis", 0) in (1, "columns"):
        record_result(call, IdentityEdges(version))
        return
    subset = call.kwargs.get("subset")
    labels = version.columns if subset is None else [label for label in as_labels(subset) if version.has(label)]
    rows = union(*[as_indirect(version.field(label), FILTER) for label in labels])
    record_result(call, IdentityEdges(version), rows)


def trace_duplicated(call: Call) -> None:
    """Trace DataFrame.duplicated: a mask computed from the subset columns."""
    version: FrameVersion = call.pre_state
    labels = as_labels(call.argument(0, "subset")) or None
    attach_to_series(call.result, version.fields(labels, TRANSFORMATION))


def trace_sample(call: Call) -> None:
    """Trace df.sample(weights=...): the weights filter the rows."""
    version: FrameVersion = call.pre_state
    weights = call.argument(3, "weights")
    by_label = isinstance(weights, str) and version.has(weights)
    rows = as_indirect(version.field(weights), FILTER) if by_label else indirect_use(weights, FILTER)
    record_created(call, IdentityEdges(version), rows, (version,))


def trace_drop(call: Call) -> None:
    """Trace df.drop(labels): a tracked index filters the rows."""
    by_columns = call.argument(1, "axis", 0) in (1, "columns")
    labels = call.kwargs.get("index", None if by_columns else call.argument(0, "labels"))
    rows = indirect_use(labels, FILTER) if isinstance(labels, (pd.Index, pd.Series)) else None
    record_result(call, IdentityEdges(call.pre_state), rows)


def trace_reindex(call: Call) -> None:
    """Trace df.reindex(labels): rows are joined with labels that may come from another frame."""
    version: FrameVersion = call.pre_state
    by_columns = call.kwargs.get("axis", 0) in (1, "columns")
    labels = call.kwargs.get("index", None if by_columns else call.argument(0, "labels"))
    label_provenance = provenance_or_empty(labels)
    if not label_provenance:
        trace_selection(call)
        return
    # A column with the name of a level has precedence.
    levels = level_provenance(labels, [name for name in index_names(call.result.index) if name not in version.columns])
    rows = union(
        as_indirect(label_provenance, JOIN), *[as_indirect(version.field(name), JOIN) for name in version.index_names]
    )
    record_created(call, IdentityEdges(version, IDENTITY, levels), rows, (version,))


def level_rule(axis_position: int) -> Rule:
    """Build a rule for droplevel, swaplevel, reorder_levels: a rename on columns, no change on the index."""

    def rule(call: Call) -> None:
        if call.argument(axis_position, "axis", 0) in (1, "columns"):
            call.kind = "transformation"
            trace_rename(call)
        else:
            trace_selection(call)

    return rule


def trace_rename(call: Call) -> None:
    """Trace rename, add_prefix, set_axis: columns get new labels by position."""
    version: FrameVersion = call.pre_state
    output = call.output_frame
    if not isinstance(output, pd.DataFrame):
        return
    if len(output.columns) != len(version.columns):
        record_result(call, IdentityEdges(version))
        return
    field_args = (version, output.columns, index_names(output.index))
    edges = (
        LazyEdges.from_callable(_fields_by_position, *field_args)
        if version.is_real
        else ExplicitEdges(_fields_by_position(*field_args))
    )
    record_result(call, edges)


def _fields_by_position(
    version: FrameVersion, columns: Any, levels: tuple[Hashable, ...]
) -> dict[Hashable, Provenance]:
    fields = zip_by_position(
        column_labels(columns), [version.field(previous) for previous in column_labels(version.columns)]
    )
    # Index levels may be renamed as well, by position.
    for previous, name in zip(version.index_names, levels, strict=False):
        fields.setdefault(name, version.field(previous))
    return fields


def trace_set_index(call: Call) -> None:
    """Trace set_index: columns become named levels; a Series key has its own provenance."""
    version: FrameVersion = call.pre_state
    keys = to_key_list(call.argument(0, "keys"))
    series_keys = {key.name: provenance_or_empty(key) for key in keys if isinstance(key, (pd.Series, pd.Index))}
    record_result(call, IdentityEdges(version, IDENTITY, series_keys or None))


def trace_reset_index(call: Call) -> None:
    """Trace reset_index: named levels become columns with the same names, or those in `names`."""
    version: FrameVersion = call.pre_state
    names = call.kwargs.get("names")
    levels = as_labels(names) if names is not None else list(version.index_names)
    level_fields = dict(zip(levels, [version.field(level) for level in version.index_names], strict=False))
    fields: dict[Hashable, Provenance] | None = level_fields if names is not None else None
    if isinstance(version.columns, pd.MultiIndex):
        # The level "k" becomes the column ("k", "").
        new_labels = [label for label in call.output_frame.columns if not version.has(label)]
        fields = {
            label: next((level_fields[item] for item in label if item in level_fields), {}) for label in new_labels
        }
    record_result(call, IdentityEdges(version, IDENTITY, fields))


def trace_pop(call: Call) -> None:
    """Trace df.pop(label): the column is removed and returned."""
    attach_to_series(call.result, call.pre_state.field(call.argument(0, "item")))
    record_mutated(call, IdentityEdges(call.pre_state))


def trace_delitem(call: Call) -> None:
    """Trace del df[label]."""
    record_mutated(call, IdentityEdges(call.pre_state))


def trace_export(call: Call) -> None:
    """Trace df.to_dict(), df.to_records(): plain values without provenance, recorded as a read."""
    record_read(call.caller, call.pre_state)


def trace_align(call: Call) -> None:
    """Trace df.align(other): both frames are returned with the same labels."""
    other = call.argument(0, "other")
    for source, result in zip((call.receiver, other), call.result, strict=True):
        if isinstance(source, pd.DataFrame) and isinstance(result, pd.DataFrame):
            version = current_version(source)
            record_created(call, IdentityEdges(version), None, (version,), frame=result)


def patch_iteration() -> None:
    """Patch iteration over groups, frames and Series."""
    for owner in (DataFrameGroupBy, SeriesGroupBy):
        _patch_group_iteration(owner)
    _patch_frame_iteration()
    _patch_series_iteration()


def _patch_group_iteration(owner: Any) -> None:
    original = owner.__iter__

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807 - replaces the method
        try:
            groups = original(self)
            return groups if guard.depth else _trace_groups(self, groups, sys._getframe(1))
        except BaseException as error:
            strip_frame(error)
            raise

    patches.replace(owner, "__iter__", __iter__)


def _trace_groups(grouped: Any, iterator: Iterator[Any], caller: Any) -> Iterator[Any]:
    while True:
        depth, guard.depth = guard.depth, 1
        try:
            name, group = next(iterator)
            call = Call("__iter__", grouped, (), {}, None, caller, "selection")
            _run_rule(record_group, call, group)
            _run_rule(_record_keys, grouped, caller)
        except StopIteration:
            return
        except BaseException as error:
            strip_frame(error)
            raise
        finally:
            guard.depth = depth
        yield name, group


def _record_keys(grouped: Any, caller: Any) -> None:
    lineage = groupby_lineage(grouped)
    if lineage is not None:
        record_read(caller, union(*[key for _, key in lineage.keys]))


def _run_rule(rule: Any, *args: Any) -> None:
    try:
        rule(*args)
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        record_error("__iter__", error)


def _patch_frame_iteration() -> None:
    original_items, original_iterrows, original_itertuples = (
        pd.DataFrame.items,
        pd.DataFrame.iterrows,
        pd.DataFrame.itertuples,
    )

    def items(self: Any) -> Iterator[Any]:
        try:
            pairs = original_items(self)
            return pairs if guard.depth else _trace_items(self, pairs)
        except BaseException as error:
            strip_frame(error)
            raise

    def iterrows(self: Any) -> Iterator[Any]:
        try:
            pairs = original_iterrows(self)
            return pairs if guard.depth else _trace_rows(self, pairs)
        except BaseException as error:
            strip_frame(error)
            raise

    def itertuples(self: Any, index: bool = True, name: str | None = "Pandas") -> Iterator[Any]:  # noqa: FBT001, FBT002 - pandas' signature
        try:
            if not guard.depth:
                # Plain tuples have no provenance: assume that all columns are read.
                record_read(sys._getframe(1), current_version(self))
            return cast("Iterator[Any]", original_itertuples(self, index, name))
        except BaseException as error:
            strip_frame(error)
            raise

    for replacement in (items, iterrows, itertuples):
        patches.replace(pd.DataFrame, replacement.__name__, replacement)


def _trace_items(frame: Any, pairs: Iterator[Any]) -> Iterator[Any]:
    version = current_version(frame)
    return _attach_to_items(pairs, lambda pair: attach_to_series(pair[1], version.field(pair[0])))


def _trace_rows(frame: Any, pairs: Iterator[Any]) -> Iterator[Any]:
    # One state for all rows: repeated reads are recognized by it.
    state = SeriesLineage(current_version(frame).fields())
    return _attach_to_items(pairs, lambda pair: set_state(pair[1], state))


def _attach_to_items(pairs: Iterator[Any], attach: Callable[[Any], None]) -> Iterator[Any]:
    """Yield the pairs of a generator of pandas, with lineage; how it creates them is not traced."""
    try:
        while True:
            depth, guard.depth = guard.depth, 1
            try:
                pair = next(pairs)
            except StopIteration:
                return
            finally:
                guard.depth = depth
            attach(pair)
            yield pair
    except BaseException as error:
        strip_frame(error)
        raise


def _patch_series_iteration() -> None:
    original = pd.Series.__iter__

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807 - replaces the method
        try:
            if not guard.depth:
                provenance = provenance_of(self)
                if provenance:
                    record_read(sys._getframe(1), provenance)
                    if any(flags & AGGREGATION for flags in provenance.values()):
                        # `low, high = column.quantile([0.1, 0.9])` extracts scalars.
                        record_scalar(sys._getframe(1), provenance)
            return cast("Iterator[Any]", original(self))
        except BaseException as error:
            strip_frame(error)
            raise

    patches.replace(pd.Series, "__iter__", __iter__)
