"""Rules for groupby, resample and windows: what a group is made by."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from clew.capture.flags import GROUP_BY, IDENTITY, OPAQUE, TRANSFORMATION, WINDOW
from clew.capture.frames.calls import Call
from clew.capture.frames.functions import is_opaque
from clew.capture.frames.state import is_scalar, known, levels_named
from clew.capture.provenance import Provenance, SeriesState, through, union, used_for
from clew.capture.versions import STATE, FrameVersion, give_state


@dataclass(slots=True)
class Groups:
    """What a GroupBy, a Resampler or a Window carries."""

    version: FrameVersion | None
    series: SeriesState | None
    # The keys by the names that they have in the result; a key without a name has none.
    keys: list[tuple[Hashable | None, Provenance]] = field(default_factory=list)
    prefix: str = "groupby"
    selected: Any = None
    use: int = GROUP_BY

    def key_uses(self, use: int) -> Provenance:
        """The keys, used to form groups or windows."""
        return union(*[used_for(key, use) for _, key in self.keys])

    def key_names(self) -> list[Hashable]:
        """Names of the keys that have one."""
        return [name for name, _ in self.keys if name is not None]


def groups_of(subject: Any) -> Groups | None:
    """What a GroupBy or a Window carries, if the frame behind it was seen."""
    found = getattr(subject, STATE, None)
    return found if isinstance(found, Groups) else None


def groupby(call: Call) -> None:
    """df.groupby(by), df.groupby(level=...)."""
    version: FrameVersion = call.before
    keys = [frame_key(version, key) for key in key_list(call.argument(0, "by"))]
    keys += [
        (name, version.field(name))
        for name in levels_named(call.subject, call.argument(1, "level"))
        if version.has(name)
    ]
    give_state(call.result, Groups(version, None, keys))


def key_list(by: Any) -> list[Any]:
    """The keys of a grouping, each for itself."""
    return by if isinstance(by, list) else [] if by is None else [by]


def frame_key(version: FrameVersion, key: Any) -> tuple[Hashable | None, Provenance]:
    """A key of a grouping: the name that it has in the result, and where it comes from."""
    if isinstance(key, pd.Grouper):
        label = key.key if key.key is not None else key.level
        step = TRANSFORMATION if getattr(key, "freq", None) is not None else IDENTITY
        if label is None:
            label = version.index_names[0] if version.index_names else None
        return (label, through(version.field(label), step)) if label is not None and version.has(label) else (None, {})
    if isinstance(key, (pd.Series, pd.Index)):
        return key.name, known(key)
    if isinstance(key, np.ndarray):
        return None, known(key)
    if callable(key) or isinstance(key, dict):
        names = version.index_names
        step = TRANSFORMATION | (OPAQUE if is_opaque(key) else 0)
        found = union(*[through(version.field(name), step) for name in names])
        return names[0] if len(names) == 1 else None, found
    return (key, version.field(key)) if version.has(key) else (None, {})


def groupby_series(call: Call) -> None:
    """series.groupby(by), series.groupby(level=...)."""
    state: SeriesState = call.before
    keys: list[tuple[Hashable | None, Provenance]] = []
    for key in key_list(call.argument(0, "by")):
        if isinstance(key, (pd.Series, pd.Index, np.ndarray)):
            keys.append((getattr(key, "name", None), known(key)))
        elif state.index and is_scalar(key) and key in state.index:
            keys.append((key, state.index[key]))
    levels = levels_named(call.subject, call.argument(1, "level"))
    keys += [(name, state.index[name]) for name in levels if state.index and name in state.index]
    give_state(call.result, Groups(None, state, keys))


def resample(call: Call) -> None:
    """df.resample(rule, on=...): groups of time."""
    version: FrameVersion = call.before
    label = call.kwargs.get("on") or call.kwargs.get("level")
    if label is None and version.index_names:
        label = version.index_names[0]
    keys = [(label, through(version.field(label), TRANSFORMATION))] if label is not None and version.has(label) else []
    give_state(call.result, Groups(version, None, keys, "resample"))


def resample_series(call: Call) -> None:
    """series.resample(rule)."""
    state: SeriesState = call.before
    keys = [(name, through(found, TRANSFORMATION)) for name, found in (state.index or {}).items()]
    give_state(call.result, Groups(None, state, keys, "resample"))


def window(call: Call) -> None:
    """df.rolling, df.expanding, df.ewm."""
    version: FrameVersion = call.before
    on = call.kwargs.get("on")
    keys: list[tuple[Hashable | None, Provenance]] = []
    if on is not None and version.has(on):
        keys.append((None, version.field(on)))
    give_state(call.result, Groups(version, None, keys, call.name, use=WINDOW))


def window_series(call: Call) -> None:
    """series.rolling, series.expanding, series.ewm."""
    give_state(call.result, Groups(None, call.before, [], call.name, use=WINDOW))


def window_of_groups(call: Call) -> None:
    """groupby(...).rolling(...), groupby(...).resample(...)."""
    groups = groups_of(call.subject)
    if groups is not None:
        use = GROUP_BY if call.name == "resample" else WINDOW
        keys = [*groups.keys, *_time_keys(groups, call)]
        give_state(call.result, replace(groups, keys=keys, prefix=f"{groups.prefix}_{call.name}", use=use))


def _time_keys(groups: Groups, call: Call) -> list[tuple[Hashable | None, Provenance]]:
    """The column or level of time that cuts groups once more."""
    on = call.kwargs.get("on")
    if groups.version is not None:
        label = on if on is not None else next(iter(groups.version.index_names), None)
        found = groups.version.field(label) if label is not None and groups.version.has(label) else None
    else:
        label, found = next(iter((groups.series.index or {}).items()), (None, None))  # type: ignore[union-attr]
    if found is None or (call.name != "resample" and on is None):
        return []
    return [(label, through(found, TRANSFORMATION))] if call.name == "resample" else [(None, found)]


def selection_of_groups(call: Call) -> None:
    """groupby(...)[columns]."""
    groups = groups_of(call.subject)
    if groups is not None:
        key = call.args[0]
        give_state(call.result, replace(groups, selected=list(key) if isinstance(key, (list, pd.Index)) else key))
