"""Rules for what is computed over groups and windows: its columns, its rows, and what each is made of."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.core.groupby import DataFrameGroupBy

from clew.capture.flags import AGGREGATION, FILTER, GROUP_BY, IDENTITY, OPAQUE, SORT, TRANSFORMATION, WINDOW
from clew.capture.frames.calls import Call, made
from clew.capture.frames.functions import columns_named_in, functions_in, has_function, is_opaque, used_outside
from clew.capture.frames.grouping import Groups, groups_of
from clew.capture.frames.state import as_labels, index_names, is_scalar, known
from clew.capture.provenance import Provenance, SeriesState, mark_series, through, union, used_for
from clew.capture.records import Deferred, Kind, Listed, SameLabels
from clew.capture.versions import FrameVersion, listed

if TYPE_CHECKING:
    from collections.abc import Callable

_SAME_SHAPE = frozenset(
    "transform cumsum cumprod cummax cummin shift diff pct_change ffill bfill rank ngroup cumcount fillna".split()
)
# Of groups of time: rows that were not there are made, and filled from their neighbours.
_FILLING = frozenset("ffill bfill nearest interpolate asfreq fillna".split())
_OVER_GROUP = frozenset("transform cumsum cumprod cummax cummin".split())
_WHOLE_ROWS = frozenset("head tail nth sample filter get_group take".split())
_GREATEST = frozenset(["nlargest", "nsmallest"])
_SIZE = "size"
_COUNTS_ROWS = frozenset(["size", "ngroup", "cumcount", "value_counts"])


def over_groups(name: str) -> Callable[[Call], None]:
    """A method of a GroupBy, a Resampler or a Window."""

    def rule(call: Call) -> None:
        groups = groups_of(call.subject)
        if groups is None:
            return
        outcome = Outcome(name, groups, call)
        if isinstance(call.result, pd.DataFrame):
            parents = (groups.version,) if groups.version is not None else ()
            rows = outcome.rows()
            if groups.series is not None:
                rows = union(rows, groups.series.rows)
            made(call, outcome.kind(), outcome.edges(), rows, parents, method=f"{groups.prefix}.{name}")
        elif isinstance(call.result, pd.Series):
            outcome.mark(call.result)

    return rule


@dataclass(slots=True)
class Outcome:
    """The result of a method over groups, column by column."""

    name: str
    groups: Groups
    call: Call

    @property
    def keeps_shape(self) -> bool:
        """Whether each row of the input has its own row in the result."""
        if self.groups.prefix.endswith("resample"):
            return self.name == "transform"
        return self.name in _SAME_SHAPE or self.groups.use == WINDOW

    def kind(self) -> Kind:
        """The family of the operation."""
        if self.keeps_shape:
            return "window"
        return "selection" if self.name in _WHOLE_ROWS else "aggregation"

    def step(self) -> int:
        """What happens to values."""
        given = self.call.values() if self._is_named() else self.call.argument(0, "func")
        opaque = OPAQUE if self.name == "apply" or has_function(given) else 0
        if self.name == "apply" and self.groups.use != WINDOW:
            return TRANSFORMATION | OPAQUE
        if self.name in _WHOLE_ROWS or self.name in _GREATEST:
            return IDENTITY
        if self.name in _FILLING or (self.name in _SAME_SHAPE and self.name not in _OVER_GROUP):
            return TRANSFORMATION
        return AGGREGATION | opaque

    def rows(self) -> Provenance:
        """What holds for the whole result."""
        uses = self.groups.key_uses(WINDOW if self.keeps_shape else GROUP_BY)
        if self.name == "filter":
            return union(uses, used_for(self._judged(), FILTER))
        if self.name in _GREATEST:
            return union(uses, used_for(self._own(), SORT))
        if self.name == "value_counts":
            return union(uses, *[used_for(counted, GROUP_BY) for counted in self._counted().values()])
        return uses

    def _judged(self) -> Provenance:
        """The columns by which the function given to `filter` keeps a group or not."""
        version = self.groups.version
        if version is None:
            return through(self.groups.series.provenance, IDENTITY | OPAQUE)  # type: ignore[union-attr]
        return self._of_function(version, IDENTITY | OPAQUE)

    def _counted(self) -> dict[Hashable, Provenance]:
        """The values that `value_counts` counts: they become levels of the result."""
        version, selected = self.groups.version, self.groups.selected
        if version is None:
            return {self.call.result.index.names[-1]: self.groups.series.provenance}  # type: ignore[union-attr]
        labels = as_labels(selected) or as_labels(self.call.argument(0, "subset")) or self._value_columns(version)
        return {label: version.field(label) for label in labels}

    def source(self, label: Any) -> Provenance:
        """The provenance of one column of the result."""
        return {} if self._counts_rows(label) else union(self._values(label), self._outside())

    def _outside(self) -> Provenance:
        """What the functions that were given look into besides the groups."""
        return union(*[used_outside(one, self.call.frame) for one in functions_in(self.call.values())])

    def _values(self, label: Any) -> Provenance:
        """The provenance of the values behind one column of the result."""
        step, version, selected = self.step(), self.groups.version, self.groups.selected
        if version is None or self.name in ("corr", "cov"):
            return union(self._own(), through(known(self.call.argument(0, "other")), step))
        if selected is not None and not isinstance(selected, list):
            return through(version.field(selected), step)
        if self.name == "apply":
            return self._of_function(version, step)
        column = _column_behind(version, label)
        if column is not None:
            return through(version.field(column[0]), step)
        return through(version.fields(self._value_columns(version)), step)

    def _counts_rows(self, label: Any) -> bool:
        """Whether a column counts rows, of which no column is the source."""
        given = self.call.kwargs if self._is_named() else self.call.argument(0, "func")
        by_column = given.get(label) if isinstance(given, dict) and is_scalar(label) else None
        is_named = (isinstance(label, tuple) and label[-1] == _SIZE) or (isinstance(given, list) and label == _SIZE)
        is_given = any(isinstance(one, str) and one == _SIZE for one in (given, by_column))
        return self.name in _COUNTS_ROWS or is_given or is_named

    def _own(self) -> Provenance:
        """The values that groups or windows are made of."""
        version, selected = self.groups.version, self.groups.selected
        if version is None:
            return through(self.groups.series.provenance, self.step())  # type: ignore[union-attr]
        return through(version.fields(as_labels(selected) or self._value_columns(version)), self.step())

    def _of_function(self, version: FrameVersion, step: int) -> Provenance:
        chosen = as_labels(self.groups.selected) or None
        function = self.call.argument(0, "func")
        named = columns_named_in(function, version)
        return union(through(version.fields(chosen or named or None), step), used_outside(function, self.call.frame))

    def _value_columns(self, version: FrameVersion) -> list[Hashable]:
        names = self.groups.key_names()
        return [label for label in (self.groups.selected or version.columns) if label not in names]

    def edges(self) -> Listed:
        """Where every column and level of the result comes from."""
        version, named = self.groups.version, self._named_aggregations()
        if version is not None and self._is_said_in_names(named):
            levels = index_names(self.call.result._mgr.axes[1])
            return Deferred.by(_named_fields, version, self.groups.keys, named, levels)
        return Listed(self.fields(named))

    def _is_said_in_names(self, named: dict[str, tuple[Any, Any]]) -> bool:
        """Whether all columns are aggregations by name of columns of the frame itself: no function brings anything."""
        subject = self.call.subject
        # The groups become levels, so that each column has the name of an aggregation.
        if not named or len(named) != len(self.call.kwargs) or subject.__class__ is not DataFrameGroupBy:
            return False
        functions = [function for _, function in named.values()]
        return bool(subject.as_index) and set(map(type, functions)) == {str}

    def fields(self, named: dict[str, tuple[Any, Any]]) -> dict[Hashable, Provenance]:
        """The provenance of every column and level of the result."""
        result, version = self.call.result, self.groups.version
        levels = index_names(result.index)
        fields: dict[Hashable, Provenance] = {}
        if not self.keeps_shape or self.groups.use == WINDOW:
            fields = {
                name: key
                for name, key in self.groups.keys
                if name is not None and (name in levels or name in result.columns)
            }
        for label in listed(result.columns):
            if label in named and version is not None:
                column, function = named[label]
                fields[label] = self._aggregated(version, column, function)
            elif label not in fields:
                key = self._key_behind(label)
                fields[label] = key if key is not None else self.source(label)
        for name in levels:
            if name not in fields and version is not None and version.has(name):
                fields[name] = version.field(name)
        return fields

    def _aggregated(self, version: FrameVersion, column: Any, function: Any) -> Provenance:
        """A column that `agg(total=("amount", "sum"))` names; a count of rows has no source."""
        if isinstance(function, str):
            return _aggregated_by_name(version, column, function)
        step = AGGREGATION | (OPAQUE if is_opaque(function) else 0)
        return union(through(version.field(column), step), used_outside(function, self.call.frame))

    def _key_behind(self, label: Any) -> Provenance | None:
        """A key that stands among columns of several levels, as ("k", "")."""
        is_padded = isinstance(label, tuple) and len(label) > 1 and not any(label[1:])
        return dict(self.groups.keys).get(label[0]) if is_padded and not self.keeps_shape else None

    def _is_named(self) -> bool:
        return self.name in ("agg", "aggregate") and self.call.argument(0, "func") is None

    def _named_aggregations(self) -> dict[str, tuple[Any, Any]]:
        """`agg(total=("amount", "sum"))`: the column and the function of each result."""
        if not self._is_named():
            return {}
        found: dict[str, tuple[Any, Any]] = {}
        for label, given in self.call.kwargs.items():
            if isinstance(given, pd.NamedAgg):
                found[label] = (given.column, given.aggfunc)
            elif isinstance(given, tuple) and len(given) == 2:
                found[label] = (given[0], given[1])
        return found

    def mark(self, result: Any) -> None:
        """Give a Series of results its state."""
        version = self.groups.version
        rows = union(self.rows(), self.groups.series.rows if self.groups.series is not None else None)
        provenance = self._of_series(version)
        if self.keeps_shape:
            mark_series(result, union(provenance, rows), self._own_levels(result))
            return
        keys = {name: key for name, key in self.groups.keys if name is not None}
        if self.name == "value_counts":
            keys |= self._counted()
        mark_series(result, provenance, keys or None, rows)

    def _own_levels(self, result: Any) -> dict[Hashable, Provenance] | None:
        version = self.groups.version
        names = index_names(result.index)
        keys = dict(self.groups.keys)
        if version is not None:
            return {
                name: keys.get(name) or version.field(name) for name in names if name in keys or version.has(name)
            } or None
        levels = (self.groups.series.index if self.groups.series is not None else None) or {}
        return {name: keys.get(name) or levels.get(name, {}) for name in names} or None

    def _of_series(self, version: FrameVersion | None) -> Provenance:
        selected = self.groups.selected
        if version is None or self.name in _COUNTS_ROWS or (selected is not None and not isinstance(selected, list)):
            return self.source(None)
        if self.name == "apply":
            return self._of_function(version, self.step())
        return union(through(version.fields(self._value_columns(version)), self.step()), self._outside())


def _named_fields(
    version: FrameVersion,
    keys: list[tuple[Hashable | None, Provenance]],
    named: dict[str, tuple[Any, str]],
    levels: tuple[Hashable, ...],
) -> dict[Hashable, Provenance]:
    fields: dict[Hashable, Provenance] = {name: version.field(name) for name in levels if version.has(name)}
    fields.update({name: key for name, key in keys if name is not None and name in levels})
    for label, (column, function) in named.items():
        fields[label] = _aggregated_by_name(version, column, function)
    return fields


def _aggregated_by_name(version: FrameVersion, column: Any, function: str) -> Provenance:
    return {} if function == _SIZE else through(version.field(column), AGGREGATION)


def _column_behind(version: FrameVersion, label: Any) -> tuple[Any] | None:
    """The column that a result's label speaks of: itself, or the first part of ('amount', 'min')."""
    if version.has(label):
        return (label,)
    if isinstance(label, tuple):
        for part in (label[:-1], label[0]):
            candidate = part[0] if isinstance(part, tuple) and len(part) == 1 else part
            if version.has(candidate):
                return (candidate,)
    return None


def nth_rows(call: Call) -> None:
    """groupby(...).nth(n), groupby(...).nth[n]: the selector stands between the groups and the result."""
    call.subject = call.subject.groupby_object
    over_groups("nth")(call)


def group_frame(call: Call, part: Any) -> None:
    """One group handed out while iterating."""
    groups = groups_of(call.subject)
    if groups is None:
        return
    rows = groups.key_uses(GROUP_BY)
    if isinstance(part, pd.DataFrame) and groups.version is not None:
        made(
            call,
            "selection",
            SameLabels(groups.version),
            rows,
            (groups.version,),
            frame=part,
            method=f"{groups.prefix}.__iter__",
        )
    elif isinstance(part, pd.Series):
        state = groups.series or SeriesState(groups.version.field(groups.selected))  # type: ignore[union-attr]
        mark_series(part, state.provenance, state.index, union(state.rows, rows))
