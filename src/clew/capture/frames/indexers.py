"""Rules for loc, iloc, at and iat."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pandas as pd
from pandas.core.indexing import _AtIndexer, _iAtIndexer, _iLocIndexer, _LocIndexer

from clew.capture.flags import CONDITIONAL, FILTER, IDENTITY, TRANSFORMATION
from clew.capture.frames.assignment import given_to_columns
from clew.capture.frames.callbacks import evaluated, is_callback
from clew.capture.frames.calls import Call, changed, computed_scalar, failed, made, took
from clew.capture.frames.chained import warns_on_indexer
from clew.capture.frames.hooks import disguise, replace
from clew.capture.frames.series import entry, mask_uses
from clew.capture.frames.state import inferred, is_mask, is_scalar, known, series_parts, used_as, version_of
from clew.capture.guard import guard
from clew.capture.losses import count_loss
from clew.capture.provenance import Provenance, mark_series, through, union, used_for
from clew.capture.records import SameLabels
from clew.capture.statements import names_of, note_read, part_of_key, reads_filling
from clew.capture.versions import FrameVersion

_EVERYTHING = slice(None)
_PAIR = 2
_LABELS_READ = 16
INDEXERS = {"loc": _LocIndexer, "iloc": _iLocIndexer, "at": _AtIndexer, "iat": _iAtIndexer}


def hook_indexers() -> None:
    """Look on at all four indexers, reading and writing."""
    for name, owner in INDEXERS.items():
        _hook_reading(owner, name)
        _hook_writing(owner, name)


def _hook_reading(owner: Any, name: str) -> None:
    original = owner.__getitem__

    def __getitem__(self: Any, key: Any) -> Any:  # noqa: N807 - stands in for the method
        if guard.depth:
            return original(self, key)
        guard.depth = 1
        try:
            call, key = _prepared(name, self.obj, key, sys._getframe(1))
            result = _attempted(call, original, self, key)
            call.result, call.ended = result, time.perf_counter()
            try:
                _read(call, key, by_label=name in ("loc", "at"))
            except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
                count_loss(name, error)
        finally:
            guard.depth = 0
        return result

    replace(owner, "__getitem__", __getitem__)


def _hook_writing(owner: Any, name: str) -> None:
    original = owner.__setitem__

    def __setitem__(self: Any, key: Any, value: Any) -> None:  # noqa: N807 - stands in for the method
        if guard.depth:
            original(self, key, value)
            return
        warns_on_indexer(sys.getrefcount(self.obj), self.obj)
        guard.depth = 1
        try:
            call, key = _prepared(name, self.obj, key, sys._getframe(1))
            _attempted(call, original, self, key, value)
            call.ended = time.perf_counter()
            try:
                _wrote(call, key, value, by_label=name in ("loc", "at"))
            except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
                count_loss(name, error)
        finally:
            guard.depth = 0

    replace(owner, "__setitem__", __setitem__)


def _attempted(call: Call, original: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return original(*arguments)
    except Exception as error:
        failed(call, error)
        raise


disguise(_attempted)


def _prepared(name: str, subject: Any, key: Any, frame: Any) -> tuple[Call, Any]:
    """The call, and its key with every function in it evaluated where that is seen."""
    before = None
    try:
        before = version_of(subject) if isinstance(subject, pd.DataFrame) else series_parts(subject)
        if type(key) is tuple and any(map(is_callback, key)):
            key = tuple(evaluated(part, subject) if is_callback(part) else part for part in key)
        elif is_callback(key):
            value = evaluated(key, subject)
            # pandas refuses a function that returns a tuple: it must still see that one did.
            key = (lambda _: value) if isinstance(value, tuple) else value
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        count_loss(name, error)
    call = Call(name, subject, (key,), {}, before, frame)
    call.started = time.perf_counter()
    return call, key


def _rows_and_columns(subject: Any, key: Any) -> tuple[Any, Any]:
    if not isinstance(key, tuple) or (isinstance(subject.index, pd.MultiIndex) and len(key) > _PAIR):
        return key, None
    return (key[0], key[1]) if len(key) > 1 else (key[0], None)


def _labels(subject: Any, chosen: Any, *, by_label: bool) -> list[Hashable]:
    """The columns that the second part of a key speaks of."""
    columns = subject.columns
    if chosen is None or (isinstance(chosen, slice) and chosen == _EVERYTHING):
        return list(columns)
    if not by_label or is_mask(chosen):
        found = columns[np.asarray(chosen) if isinstance(chosen, (list, pd.Series)) else chosen]
        return list(found) if isinstance(found, pd.Index) else [found]
    if isinstance(chosen, slice):
        return list(columns[columns.slice_indexer(chosen.start, chosen.stop, chosen.step)])
    if isinstance(chosen, (list, pd.Index, np.ndarray, pd.Series)):
        return list(chosen)
    # Slices inside a tuple speak of levels, not of columns.
    is_of_levels = isinstance(chosen, tuple) and any(isinstance(part, slice) for part in chosen)
    return list(columns) if is_of_levels else [chosen]


def _row_uses(rows: Any, call: Call, use: int) -> Provenance:
    if is_mask(rows):
        return mask_uses(rows, call, use)
    if isinstance(rows, slice):
        return {}
    found = used_as(rows, use)
    if found or call.name not in ("loc", "iloc"):
        return found
    return used_for(_read_for(rows, call), use)


def _read_for(labels: Any, call: Call) -> Provenance:
    """What labels or positions were computed from that left pandas on their way."""
    if isinstance(labels, (list, np.ndarray)):
        names = names_of(labels, call.frame)
        if names:
            return inferred(union(*reads_filling(call.frame, names)))
    several = labels if isinstance(labels, list) and len(labels) <= _LABELS_READ else [labels]
    return union(
        *[computed_scalar(label, call.frame, part_of_key(call.frame)) for label in several if is_scalar(label)]
    )


def _read(call: Call, key: Any, *, by_label: bool) -> None:
    subject, result = call.subject, call.result
    if isinstance(subject, pd.Series):
        _read_series(call, key)
        return
    version: FrameVersion = call.before
    rows, chosen = _rows_and_columns(subject, key)
    condition = _row_uses(rows, call, FILTER)
    if isinstance(result, pd.DataFrame):
        made(call, "selection", SameLabels(version), condition, (version,))
        return
    fields = version.fields(_labels(subject, chosen, by_label=by_label))
    if isinstance(result, pd.Series):
        levels = {name: version.field(name) for name in version.index_names}
        mark_series(result, fields, levels or None, condition or None)
        note_read(call.frame, fields)
    elif is_scalar(result):
        took(call.frame, result, fields)


def _read_series(call: Call, key: Any) -> None:
    state = call.before
    if isinstance(call.result, pd.Series):
        condition = _row_uses(key, call, FILTER)
        mark_series(call.result, state.provenance, state.index, union(state.rows, condition) or None)
    elif is_scalar(call.result):
        took(call.frame, call.result, state.whole())


def _wrote(call: Call, key: Any, value: Any, *, by_label: bool) -> None:
    subject = call.subject
    if isinstance(subject, pd.Series):
        state = call.before
        condition = _row_uses(key, call, CONDITIONAL)
        provenance = union(through(state.provenance, TRANSFORMATION), condition, through(known(value), TRANSFORMATION))
        mark_series(subject, provenance, state.index, state.rows)
        return
    version: FrameVersion = call.before
    rows, chosen = _rows_and_columns(subject, key)
    labels = _labels(subject, chosen, by_label=by_label)
    condition = _row_uses(rows, call, CONDITIONAL)
    is_whole = isinstance(rows, slice) and rows == _EVERYTHING
    fields = {}
    for label, given in zip(labels, _values(value, labels, call), strict=True):
        kept = through(version.field(label), TRANSFORMATION) if version.has(label) else {}
        fields[label] = given if is_whole else union(kept, through(given, TRANSFORMATION), condition)
    changed(call, "assignment", SameLabels(version, IDENTITY, fields))


def _values(value: Any, labels: list[Hashable], call: Call) -> list[Provenance]:
    if isinstance(value, pd.DataFrame):
        source = version_of(value)
        return [source.field(label) if source.has(label) else {} for label in labels]
    if isinstance(value, pd.Series) and len(labels) > 1 and all(label in value.index for label in labels):
        # A Series that is laid along the columns, such as `df.sum()`.
        return [entry(known(value), label) for label in labels]
    return given_to_columns(value, len(labels), call)
