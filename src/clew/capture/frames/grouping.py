"""Rules for groupby, resample and windows: the keys that form groups."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from clew.capture.flags import GROUP_BY, IDENTITY, OPAQUE, TRANSFORMATION, WINDOW
from clew.capture.frames.calls import Call
from clew.capture.frames.functions import is_opaque
from clew.capture.frames.state import is_scalar, provenance_or_empty, resolve_level_names
from clew.capture.provenance import Provenance, SeriesLineage, apply_direct, as_indirect, union
from clew.capture.versions import STATE_ATTR, FrameVersion, set_state


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
    """Return the keys of a grouping as a list."""
    return by if isinstance(by, list) else [] if by is None else [by]


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
