"""Rules of reductions; group keys and windows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clew.capture.backends.base import Call, Rule
from clew.capture.backends.pandas.call import (
    argument_provenance,
    assign_to_result,
    record_created,
    record_extracted_scalar,
)
from clew.capture.backends.pandas.inference import closure_provenance, is_opaque, referenced_columns, user_functions
from clew.capture.backends.pandas.state import as_labels, is_scalar, provenance_or_empty, resolve_level_names
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion, index_names, set_state
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges
from clew.capture.lineage.provenance import (
    Provenance,
    SeriesLineage,
    apply_direct,
    as_indirect,
    attach_to_array,
    attach_to_series,
    union,
)
from clew.capture.lineage.transformations import AGGREGATION, GROUP_BY, IDENTITY, OPAQUE, TRANSFORMATION, WINDOW

if TYPE_CHECKING:
    from collections.abc import Hashable

    from clew.capture.lineage.frame_version import FrameVersion


@dataclass(slots=True)
class GroupByLineage:
    """Lineage attached to a GroupBy, a Resampler or a Window."""

    version: FrameVersion | None
    series: SeriesLineage | None
    # (name in the result or None, provenance) of each key.
    keys: list[tuple[Hashable | None, Provenance]] = field(default_factory=list)
    prefix: str = "groupby"
    selected: Any = None
    use: int = GROUP_BY

    def key_provenance(self, use: int) -> Provenance:
        """Return the keys as an INDIRECT use: to form groups or windows."""
        return union(*[as_indirect(key, use) for _, key in self.keys])

    def key_names(self) -> list[Hashable]:
        """Return the names of named keys."""
        return [name for name, _ in self.keys if name is not None]


def groupby_lineage(grouped: Any) -> GroupByLineage | None:
    """Return the lineage of a GroupBy, Resampler or Window; None if it is untracked."""
    state = getattr(grouped, STATE_ATTR, None)
    return state if isinstance(state, GroupByLineage) else None


def trace_groupby(call: Call) -> None:
    """Trace df.groupby(by), df.groupby(level=...)."""
    version: FrameVersion = call.pre_state
    keys = [resolve_key(version, key) for key in to_key_list(call.argument(0, "by"))]
    keys += [
        (name, version.field(name))
        for name in resolve_level_names(call.receiver, call.argument(1, "level"))
        if version.has(name)
    ]
    set_state(call.result, GroupByLineage(version, None, keys))


def to_key_list(by: Any) -> list[Any]:
    """Return the keys of a grouping or a join as a list; an array or a tuple is one key."""
    return list(by) if isinstance(by, list) else [] if by is None else [by]


def resolve_key(version: FrameVersion, key: Any) -> tuple[Hashable | None, Provenance]:
    """Return the name of a grouping key in the result, and its provenance."""
    if isinstance(key, pd.Grouper):
        label = key.key if key.key is not None else key.level
        step = TRANSFORMATION if getattr(key, "freq", None) is not None else IDENTITY
        if label is None:
            label = version.index_names[0] if version.index_names else None
        return (
            (label, apply_direct(version.field(label), step))
            if label is not None and version.has(label)
            else (None, {})
        )
    if isinstance(key, (pd.Series, pd.Index)):
        return key.name, provenance_or_empty(key)
    if isinstance(key, np.ndarray):
        return None, provenance_or_empty(key)
    if callable(key) or isinstance(key, dict):
        names = version.index_names
        step = TRANSFORMATION | (OPAQUE if is_opaque(key) else 0)
        provenance = union(*[apply_direct(version.field(name), step) for name in names])
        return names[0] if len(names) == 1 else None, provenance
    return (key, version.field(key)) if version.has(key) else (None, {})


def trace_series_groupby(call: Call) -> None:
    """Trace series.groupby(by), series.groupby(level=...)."""
    lineage: SeriesLineage = call.pre_state
    keys: list[tuple[Hashable | None, Provenance]] = []
    for key in to_key_list(call.argument(0, "by")):
        if isinstance(key, (pd.Series, pd.Index, np.ndarray)):
            keys.append((getattr(key, "name", None), provenance_or_empty(key)))
        elif lineage.index and is_scalar(key) and key in lineage.index:
            keys.append((key, lineage.index[key]))
    levels = resolve_level_names(call.receiver, call.argument(1, "level"))
    keys += [(name, lineage.index[name]) for name in levels if lineage.index and name in lineage.index]
    set_state(call.result, GroupByLineage(None, lineage, keys))


def trace_resample(call: Call) -> None:
    """Trace df.resample(rule, on=...)."""
    version: FrameVersion = call.pre_state
    label = call.kwargs.get("on") or call.kwargs.get("level")
    if label is None and version.index_names:
        label = version.index_names[0]
    keys = (
        [(label, apply_direct(version.field(label), TRANSFORMATION))]
        if label is not None and version.has(label)
        else []
    )
    set_state(call.result, GroupByLineage(version, None, keys, "resample"))


def trace_series_resample(call: Call) -> None:
    """Trace series.resample(rule)."""
    lineage: SeriesLineage = call.pre_state
    keys = [(name, apply_direct(provenance, TRANSFORMATION)) for name, provenance in (lineage.index or {}).items()]
    set_state(call.result, GroupByLineage(None, lineage, keys, "resample"))


def trace_window(call: Call) -> None:
    """Trace df.rolling, df.expanding, df.ewm."""
    version: FrameVersion = call.pre_state
    on = call.kwargs.get("on")
    keys: list[tuple[Hashable | None, Provenance]] = []
    if on is not None and version.has(on):
        keys.append((None, version.field(on)))
    set_state(call.result, GroupByLineage(version, None, keys, call.name, use=WINDOW))


def trace_series_window(call: Call) -> None:
    """Trace series.rolling, series.expanding, series.ewm."""
    set_state(call.result, GroupByLineage(None, call.pre_state, [], call.name, use=WINDOW))


def trace_groupby_window(call: Call) -> None:
    """Trace groupby(...).rolling(...), groupby(...).resample(...)."""
    groups = groupby_lineage(call.receiver)
    if groups is not None:
        use = GROUP_BY if call.name == "resample" else WINDOW
        keys = [*groups.keys, *_time_keys(groups, call)]
        set_state(call.result, replace(groups, keys=keys, prefix=f"{groups.prefix}_{call.name}", use=use))


def _time_keys(groups: GroupByLineage, call: Call) -> list[tuple[Hashable | None, Provenance]]:
    """Return the time column or level that subdivides the groups."""
    on = call.kwargs.get("on")
    if groups.version is not None:
        label = on if on is not None else next(iter(groups.version.index_names), None)
        provenance = groups.version.field(label) if label is not None and groups.version.has(label) else None
    else:
        label, provenance = next(iter((groups.series.index or {}).items()), (None, None))  # type: ignore[union-attr]
    if provenance is None or (call.name != "resample" and on is None):
        return []
    return [(label, apply_direct(provenance, TRANSFORMATION))] if call.name == "resample" else [(None, provenance)]


def trace_groupby_getitem(call: Call) -> None:
    """Trace groupby(...)[columns]."""
    groups = groupby_lineage(call.receiver)
    if groups is not None:
        key = call.args[0]
        set_state(call.result, replace(groups, selected=list(key) if isinstance(key, (list, pd.Index)) else key))


_COLUMN_AXES = (1, "columns")


def reduction_rule(axis_position: int = 0) -> Rule:
    """Build a rule for sum, mean, ...: an aggregation along axis 0, a transformation along axis 1."""

    def rule(call: Call) -> None:
        version: FrameVersion = call.pre_state
        is_axis1 = _is_axis1(call, axis_position)
        if isinstance(call.result, pd.DataFrame) and is_axis1:
            assign_to_result(call, version.fields(None, TRANSFORMATION))
        elif isinstance(call.result, pd.DataFrame):
            record_created(call, IdentityEdges(version, AGGREGATION), None, (version,))
        else:
            _assign_reduced(call, is_axis1=is_axis1)

    return rule


def _assign_reduced(call: Call, *, is_axis1: bool, opaque: int = 0, closure: Provenance | None = None) -> None:
    """Attach lineage to a Series or scalar that a reduction returned."""
    version, result = call.pre_state, call.result
    if isinstance(result, pd.Series) and is_axis1:
        labels = list(call.receiver.select_dtypes("number").columns) if call.kwargs.get("numeric_only") else None
        provenance = union(version.fields(labels, TRANSFORMATION | opaque), closure)
        attach_to_series(result, provenance, version.levels() or None)
    elif isinstance(result, pd.Series):
        labels = [label for label in result.index if version.has(label)]
        attach_to_series(result, union(version.fields(labels, AGGREGATION | opaque), closure))
    else:
        record_extracted_scalar(call.caller, result, version.fields(None, AGGREGATION | opaque))


def _is_axis1(call: Call, position: int = 1) -> bool:
    axis = call.argument(position, "axis", 0)
    return isinstance(axis, (int, str)) and not isinstance(axis, bool) and axis in _COLUMN_AXES


def trace_agg(call: Call) -> None:
    """Trace df.agg(...), including named aggregations, whose result has one row per name."""
    version: FrameVersion = call.pre_state
    function = call.argument(0, "func")
    functions = user_functions(call.values())
    opaque = OPAQUE if functions else 0
    closure = union(*[closure_provenance(user_function, call.caller) for user_function in functions])
    if isinstance(call.result, pd.DataFrame):
        fields = None
        if function is None:
            sources = [aggregation[0] for aggregation in call.kwargs.values() if isinstance(aggregation, tuple)]
            fields = {label: apply_direct(version.field(label), AGGREGATION) for label in sources if version.has(label)}
        step = TRANSFORMATION if _is_axis1(call) else AGGREGATION
        fields = fields or _fields_with_closure(call, closure, step | opaque)
        record_created(call, IdentityEdges(version, step | opaque, fields), None, (version,))
    else:
        _assign_reduced(call, is_axis1=_is_axis1(call), opaque=opaque, closure=closure)


def all_columns_rule(step: int) -> Rule:
    """Build a rule for corr, cov, dot, transpose: every value may come from every column."""

    def rule(call: Call) -> None:
        version: FrameVersion = call.pre_state
        operands = [provenance_or_empty(value) for value in call.values()]
        labels = None
        if call.kwargs.get("numeric_only"):
            labels = [label for label in call.result.axes[-1] if version.has(label)]
        assign_to_result(call, apply_direct(union(version.fields(labels), *operands), step))

    return rule


def trace_to_numpy(call: Call) -> None:
    """Trace df.to_numpy(), df.values: columns retain their positions."""
    version: FrameVersion = call.pre_state
    attach_to_array(call.result, version.fields(), version)


def trace_apply(call: Call) -> None:
    """Trace df.apply(function): from the referenced columns along axis 1, column by column along axis 0."""
    version: FrameVersion = call.pre_state
    function = call.argument(0, "func")
    opaque = OPAQUE if is_opaque(function) else 0
    step = TRANSFORMATION | opaque
    closure = union(
        closure_provenance(function, call.caller),
        *[apply_direct(argument_provenance(value, call), step) for value in call.values()],
    )
    if _is_axis1(call):
        labels = referenced_columns(function, version) or None
        provenance = union(version.fields(labels, step), closure)
        if isinstance(call.result, pd.Series):
            attach_to_series(call.result, provenance, version.levels() or None)
        elif isinstance(call.result, pd.DataFrame):
            fields: dict[Hashable, Provenance] = dict.fromkeys(call.result.columns, provenance)
            fields.update({name: version.field(name) for name in index_names(call.result.index) if version.has(name)})
            record_created(call, ExplicitEdges(fields), None, (version,))
    elif isinstance(call.result, pd.DataFrame):
        record_created(
            call,
            IdentityEdges(version, step, _fields_with_closure(call, closure, step)),
            None,
            (version,),
        )
    elif isinstance(call.result, pd.Series):
        labels = [label for label in call.result.index if version.has(label)]
        attach_to_series(call.result, union(version.fields(labels or None, AGGREGATION | opaque), closure))


def _fields_with_closure(call: Call, closure: Provenance, step: int) -> dict[Hashable, Provenance] | None:
    """Return the provenance of every result column merged with the closure of the function."""
    if not closure:
        return None
    version: FrameVersion = call.pre_state
    return {
        label: union(apply_direct(version.field(label), step) if version.has(label) else None, closure)
        for label in call.result.columns
    }


def trace_value_counts(call: Call) -> None:
    """Trace df.value_counts(subset): a count has no DIRECT source; the values become its index."""
    version: FrameVersion = call.pre_state
    labels: list[Any] = as_labels(call.argument(0, "subset")) or list(version.columns)
    attach_to_series(
        call.result, {}, {label: version.field(label) for label in labels}, version.fields(labels, GROUP_BY)
    )
