"""Rules for results of groups and windows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
from pandas.core.groupby import DataFrameGroupBy

from clew.capture.backends.base import Call, Rule
from clew.capture.backends.pandas.aggregation import GroupByLineage, groupby_lineage
from clew.capture.backends.pandas.call import record_created
from clew.capture.backends.pandas.inference import (
    closure_provenance,
    has_user_function,
    is_opaque,
    referenced_columns,
    user_functions,
)
from clew.capture.backends.pandas.state import as_labels, is_scalar, provenance_or_empty
from clew.capture.lineage.frame_version import FrameVersion, column_labels, index_names
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges, LazyEdges, OperationType
from clew.capture.lineage.provenance import (
    Provenance,
    SeriesLineage,
    apply_direct,
    as_indirect,
    attach_to_series,
    union,
)
from clew.capture.lineage.transformations import (
    AGGREGATION,
    FILTER,
    GROUP_BY,
    IDENTITY,
    OPAQUE,
    TRANSFORMATION,
    WINDOW,
)

_SIZE_FUNCTION = "size"


class GroupMethod(NamedTuple):
    """Effect of a method of a GroupBy, a Resampler or a Window on values and rows."""

    # DIRECT transformation of the values.
    step: int = AGGREGATION
    kind: OperationType = "aggregation"
    # Whether the result has one row per input row; resampling has other rows.
    is_transform: bool = False
    # INDIRECT use of the values for the rows.
    row_use: int = 0
    # Whether the values are row counts, which have no source column.
    counts_rows: bool = False


def groupby_rule(name: str, method: GroupMethod) -> Rule:
    """Build a rule for a method of a GroupBy, a Resampler or a Window."""

    def rule(call: Call) -> None:
        groups = groupby_lineage(call.receiver)
        if groups is None:
            return
        result = GroupByResult(name, method, groups, call)
        call.kind = result.kind()
        if isinstance(call.result, pd.DataFrame):
            parents = (groups.version,) if groups.version is not None else ()
            rows = result.rows()
            if groups.series is not None:
                rows = union(rows, groups.series.rows)
            record_created(call, result.edges(), rows, parents, method=f"{groups.prefix}.{name}")
        elif isinstance(call.result, pd.Series):
            result.assign_to_series(call.result)

    return rule


@dataclass(slots=True)
class GroupByResult:
    """Lineage of the result of a method over groups or windows."""

    name: str
    method: GroupMethod
    groups: GroupByLineage
    call: Call

    @property
    def is_transform(self) -> bool:
        """True if the result has one row per input row."""
        if self.groups.prefix.endswith("resample"):
            return self.name == "transform"
        return self.method.is_transform or self.groups.use == WINDOW

    def kind(self) -> OperationType:
        """Return the operation type."""
        return "window" if self.is_transform else self.method.kind

    def step(self) -> int:
        """Return the DIRECT transformation that the method applies to values."""
        functions = self.call.values() if self._is_named_aggregation() else self.call.argument(0, "func")
        opaque = OPAQUE if self.name == "apply" or has_user_function(functions) else 0
        if self.name == "apply" and self.groups.use != WINDOW:
            return TRANSFORMATION | OPAQUE
        return self.method.step | opaque if self.method.step == AGGREGATION else self.method.step

    def rows(self) -> Provenance:
        """Return the INDIRECT provenance of all rows."""
        keys = self.groups.key_provenance(WINDOW if self.is_transform else GROUP_BY)
        if self.name == "filter":
            return union(keys, as_indirect(self._predicate_columns(), FILTER))
        if self.method.row_use:
            return union(keys, as_indirect(self._input_values(), self.method.row_use))
        if self.name == "value_counts":
            return union(keys, *[as_indirect(provenance, GROUP_BY) for provenance in self._counted_values().values()])
        return keys

    def _predicate_columns(self) -> Provenance:
        """Return the columns that the predicate of `filter` reads."""
        version = self.groups.version
        if version is None:
            return apply_direct(self.groups.series.provenance, IDENTITY | OPAQUE)  # type: ignore[union-attr]
        return self._function_provenance(version, IDENTITY | OPAQUE)

    def _counted_values(self) -> dict[Hashable, Provenance]:
        """Return the values that `value_counts` counts; they become index levels."""
        version, selected = self.groups.version, self.groups.selected
        if version is None:
            return {self.call.result.index.names[-1]: self.groups.series.provenance}  # type: ignore[union-attr]
        labels = as_labels(selected) or as_labels(self.call.argument(0, "subset")) or self._value_columns(version)
        return {label: version.field(label) for label in labels}

    def column_provenance(self, label: Any) -> Provenance:
        """Return the provenance of one column of the result."""
        return {} if self._counts_rows(label) else union(self._value_provenance(label), self._closure_inputs())

    def _closure_inputs(self) -> Provenance:
        """Return the closure provenance of the user functions among the arguments."""
        return union(
            *[closure_provenance(function, self.call.caller) for function in user_functions(self.call.values())]
        )

    def _value_provenance(self, label: Any) -> Provenance:
        """Return the provenance of the input values of one column."""
        step, version, selected = self.step(), self.groups.version, self.groups.selected
        if version is None or self.name in ("corr", "cov"):
            return union(self._input_values(), apply_direct(provenance_or_empty(self.call.argument(0, "other")), step))
        if selected is not None and not isinstance(selected, list):
            return apply_direct(version.field(selected), step)
        if self.name == "apply":
            return self._function_provenance(version, step)
        column = _source_column(version, label)
        if column is not None:
            return apply_direct(version.field(column[0]), step)
        return apply_direct(version.fields(self._value_columns(version)), step)

    def _counts_rows(self, label: Any) -> bool:
        """Return whether a column counts rows, which has no source column."""
        functions = self.call.kwargs if self._is_named_aggregation() else self.call.argument(0, "func")
        by_column = functions.get(label) if isinstance(functions, dict) and is_scalar(label) else None
        is_size_label = (isinstance(label, tuple) and label[-1] == _SIZE_FUNCTION) or (
            isinstance(functions, list) and label == _SIZE_FUNCTION
        )
        is_size_function = any(
            isinstance(function, str) and function == _SIZE_FUNCTION for function in (functions, by_column)
        )
        return self.method.counts_rows or is_size_function or is_size_label

    def _input_values(self) -> Provenance:
        """Return the provenance of all grouped values."""
        version, selected = self.groups.version, self.groups.selected
        if version is None:
            return apply_direct(self.groups.series.provenance, self.step())  # type: ignore[union-attr]
        return apply_direct(version.fields(as_labels(selected) or self._value_columns(version)), self.step())

    def _function_provenance(self, version: FrameVersion, step: int) -> Provenance:
        selected = as_labels(self.groups.selected) or None
        function = self.call.argument(0, "func")
        referenced = referenced_columns(function, version)
        return union(
            apply_direct(version.fields(selected or referenced or None), step),
            closure_provenance(function, self.call.caller),
        )

    def _value_columns(self, version: FrameVersion) -> list[Hashable]:
        names = self.groups.key_names()
        return [label for label in (self.groups.selected or version.columns) if label not in names]

    def edges(self) -> ExplicitEdges:
        """Return the edges of every column and level of the result."""
        version, named = self.groups.version, self._named_aggregations()
        if version is not None and self._has_only_named_columns(named):
            levels = index_names(self.call.result._mgr.axes[1])
            return LazyEdges.from_callable(_named_fields, version, self.groups.keys, named, levels)
        return ExplicitEdges(self.fields(named))

    def _has_only_named_columns(self, named: dict[str, tuple[Any, Any]]) -> bool:
        """Return whether every column is a named aggregation by a function name; its edges can be computed lazily."""
        grouped = self.call.receiver
        # With `as_index`, keys become levels and every column is an aggregation.
        if not named or len(named) != len(self.call.kwargs) or grouped.__class__ is not DataFrameGroupBy:
            return False
        functions = [function for _, function in named.values()]
        return bool(grouped.as_index) and set(map(type, functions)) == {str}

    def fields(self, named: dict[str, tuple[Any, Any]]) -> dict[Hashable, Provenance]:
        """Return the provenance of every column and level of the result."""
        result, version = self.call.result, self.groups.version
        levels = index_names(result.index)
        fields: dict[Hashable, Provenance] = {}
        if not self.is_transform or self.groups.use == WINDOW:
            fields = {
                name: key
                for name, key in self.groups.keys
                if name is not None and (name in levels or name in result.columns)
            }
        for label in column_labels(result.columns):
            if label in named and version is not None:
                column, function = named[label]
                fields[label] = self._named_provenance(version, column, function)
            elif label not in fields:
                key = self._padded_key(label)
                fields[label] = key if key is not None else self.column_provenance(label)
        for name in levels:
            if name not in fields and version is not None and version.has(name):
                fields[name] = version.field(name)
        return fields

    def _named_provenance(self, version: FrameVersion, column: Any, function: Any) -> Provenance:
        """Return the provenance of a column of `agg(total=("amount", "sum"))`; a row count has no source."""
        if isinstance(function, str):
            return _aggregate_by_name(version, column, function)
        step = AGGREGATION | (OPAQUE if is_opaque(function) else 0)
        return union(apply_direct(version.field(column), step), closure_provenance(function, self.call.caller))

    def _padded_key(self, label: Any) -> Provenance | None:
        """Return the key that is stored as ("k", "") among MultiIndex columns."""
        is_padded = isinstance(label, tuple) and len(label) > 1 and not any(label[1:])
        return dict(self.groups.keys).get(label[0]) if is_padded and not self.is_transform else None

    def _is_named_aggregation(self) -> bool:
        return self.name in ("agg", "aggregate") and self.call.argument(0, "func") is None

    def _named_aggregations(self) -> dict[str, tuple[Any, Any]]:
        """Return the (column, function) of each named aggregation, as in `agg(total=("amount", "sum"))`."""
        if not self._is_named_aggregation():
            return {}
        aggregations: dict[str, tuple[Any, Any]] = {}
        for label, value in self.call.kwargs.items():
            if isinstance(value, pd.NamedAgg):
                aggregations[label] = (value.column, value.aggfunc)
            elif isinstance(value, tuple) and len(value) == 2:
                aggregations[label] = (value[0], value[1])
        return aggregations

    def assign_to_series(self, result: Any) -> None:
        """Attach lineage to a Series result."""
        version = self.groups.version
        rows = union(self.rows(), self.groups.series.rows if self.groups.series is not None else None)
        provenance = self._series_provenance(version)
        if self.is_transform:
            attach_to_series(result, union(provenance, rows), self._index_levels(result))
            return
        keys = {name: key for name, key in self.groups.keys if name is not None}
        if self.name == "value_counts":
            keys |= self._counted_values()
        attach_to_series(result, provenance, keys or None, rows)

    def _index_levels(self, result: Any) -> dict[Hashable, Provenance] | None:
        version = self.groups.version
        names = index_names(result.index)
        keys = dict(self.groups.keys)
        if version is not None:
            return {
                name: keys.get(name) or version.field(name) for name in names if name in keys or version.has(name)
            } or None
        levels = (self.groups.series.index if self.groups.series is not None else None) or {}
        return {name: keys.get(name) or levels.get(name, {}) for name in names} or None

    def _series_provenance(self, version: FrameVersion | None) -> Provenance:
        selected = self.groups.selected
        if version is None or self.method.counts_rows or (selected is not None and not isinstance(selected, list)):
            return self.column_provenance(None)
        if self.name == "apply":
            return self._function_provenance(version, self.step())
        return union(apply_direct(version.fields(self._value_columns(version)), self.step()), self._closure_inputs())


def _named_fields(
    version: FrameVersion,
    keys: list[tuple[Hashable | None, Provenance]],
    named: dict[str, tuple[Any, str]],
    levels: tuple[Hashable, ...],
) -> dict[Hashable, Provenance]:
    fields: dict[Hashable, Provenance] = {name: version.field(name) for name in levels if version.has(name)}
    fields.update({name: key for name, key in keys if name is not None and name in levels})
    for label, (column, function) in named.items():
        fields[label] = _aggregate_by_name(version, column, function)
    return fields


def _aggregate_by_name(version: FrameVersion, column: Any, function: str) -> Provenance:
    return {} if function == _SIZE_FUNCTION else apply_direct(version.field(column), AGGREGATION)


def _source_column(version: FrameVersion, label: Any) -> tuple[Any] | None:
    """Return the source column of a result label: the label, or 'amount' of ('amount', 'min')."""
    if version.has(label):
        return (label,)
    if isinstance(label, tuple):
        for prefix in (label[:-1], label[0]):
            candidate = prefix[0] if isinstance(prefix, tuple) and len(prefix) == 1 else prefix
            if version.has(candidate):
                return (candidate,)
    return None


def nth_rule(trace_groups: Rule) -> Rule:
    """Build a rule for groupby(...).nth(n), groupby(...).nth[n], which go through a selector object."""

    def rule(call: Call) -> None:
        call.receiver = call.receiver.groupby_object
        trace_groups(call)

    return rule


def record_group(call: Call, group: Any) -> None:
    """Record one group yielded by iteration."""
    groups = groupby_lineage(call.receiver)
    if groups is None:
        return
    rows = groups.key_provenance(GROUP_BY)
    if isinstance(group, pd.DataFrame) and groups.version is not None:
        record_created(
            call,
            IdentityEdges(groups.version),
            rows,
            (groups.version,),
            frame=group,
            method=f"{groups.prefix}.__iter__",
        )
    elif isinstance(group, pd.Series):
        lineage = groups.series or SeriesLineage(groups.version.field(groups.selected))  # type: ignore[union-attr]
        attach_to_series(group, lineage.provenance, lineage.index, union(lineage.rows, rows))
