"""Rules for loc, iloc, at and iat."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
from pandas.core.indexing import _AtIndexer, _iAtIndexer, _iLocIndexer, _LocIndexer

from clew.capture.backends.base import Call, Tracing
from clew.capture.backends.pandas.assignment import provenance_per_column
from clew.capture.backends.pandas.call import (
    infer_scalar,
    record_created,
    record_extracted_scalar,
    record_mutated,
)
from clew.capture.backends.pandas.inference import evaluate_early, is_callback
from clew.capture.backends.pandas.patching import patches
from clew.capture.backends.pandas.selection import label_lookup, sublevel_edges
from clew.capture.backends.pandas.series import entry_for_label, mask_provenance, record_series_cells
from clew.capture.backends.pandas.state import (
    current_version,
    indirect_use,
    is_mask,
    is_scalar,
    lineage_or_empty,
    mark_inferred,
    provenance_or_empty,
)
from clew.capture.introspection.read_tracking import assignment_target_span, names_bound_to, reads_defining, record_read
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.operations import IdentityEdges
from clew.capture.lineage.provenance import Provenance, apply_direct, as_indirect, attach_to_series, union
from clew.capture.lineage.transformations import CONDITIONAL, FILTER, IDENTITY, TRANSFORMATION

_FULL_SLICE = slice(None)
_KEY_PARTS = 2
_MAX_LABELS_TRACED = 16
_INDEXERS = {"loc": _LocIndexer, "iloc": _iLocIndexer, "at": _AtIndexer, "iat": _iAtIndexer}


def patch_indexers() -> None:
    """Patch reads and writes of all four indexers."""
    for name, owner in _INDEXERS.items():
        patches.element_getitem(owner, Tracing(_trace_read, prepare=_evaluate_key, kind="selection"), name)
        patches.indexer_setitem(owner, name, Tracing(_trace_write, prepare=_evaluate_key, kind="assignment"))


def _evaluate_key(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Set the frame or Series of the indexer as receiver, and evaluate callbacks in the key with tracing."""
    receiver = call.receiver = call.receiver.obj
    call.pre_state = current_version(receiver) if isinstance(receiver, pd.DataFrame) else lineage_or_empty(receiver)
    key, *rest = call.args
    if type(key) is tuple and any(map(is_callback, key)):
        key = tuple(evaluate_early(item, receiver) if is_callback(item) else item for item in key)
    elif is_callback(key):
        value = evaluate_early(key, receiver)
        # pandas rejects a callback that returns a tuple; it must still get a callback.
        key = (lambda _: value) if isinstance(value, tuple) else value
    call.args = (key, *rest)
    return call.args, call.kwargs


def _split_key(receiver: Any, key: Any) -> tuple[Any, Any]:
    if not isinstance(key, tuple) or (isinstance(receiver.index, pd.MultiIndex) and len(key) > _KEY_PARTS):
        return key, None
    return (key[0], key[1]) if len(key) > 1 else (key[0], None)


def _selected_labels(receiver: Any, key: Any, *, by_label: bool) -> list[Hashable]:
    """Return the labels of the columns that the column part of a key selects."""
    columns = receiver.columns
    if key is None or (isinstance(key, slice) and key == _FULL_SLICE):
        return list(columns)
    if not by_label or is_mask(key):
        selected = columns[np.asarray(key) if isinstance(key, (list, pd.Series)) else key]
        return list(selected) if isinstance(selected, pd.Index) else [selected]
    if isinstance(key, slice):
        return list(columns[columns.slice_indexer(key.start, key.stop, key.step)])
    if isinstance(key, (list, pd.Index, np.ndarray, pd.Series)):
        return list(key)
    # Slices inside a tuple select levels, not columns.
    selects_levels = isinstance(key, tuple) and any(isinstance(item, slice) for item in key)
    return list(columns) if selects_levels else [key]


def _row_provenance(rows: Any, call: Call, use: int) -> Provenance:
    if is_mask(rows):
        return mask_provenance(rows, call, use)
    if isinstance(rows, slice):
        return {}
    provenance = indirect_use(rows, use)
    if provenance or call.name not in ("loc", "iloc"):
        return provenance
    return as_indirect(_infer_labels(rows, call), use)


def _label_provenance(rows: Any, call: Call, version: FrameVersion, use: int) -> Provenance:
    """Return the provenance of the named index levels with which `loc` and `at` compare labels."""
    if call.name not in ("loc", "at") or not version.index_names or is_mask(rows):
        return {}
    is_full = isinstance(rows, slice) and rows == _FULL_SLICE
    return {} if is_full else label_lookup(call.receiver, version, rows, use)


def _infer_labels(labels: Any, call: Call) -> Provenance:
    """Infer the provenance of row labels or positions that left pandas."""
    if isinstance(labels, (list, np.ndarray)):
        names = names_bound_to(labels, call.caller)
        if names:
            return mark_inferred(union(*reads_defining(call.caller, names)))
    scalars = labels if isinstance(labels, list) and len(labels) <= _MAX_LABELS_TRACED else [labels]
    return union(
        *[
            infer_scalar(label, call.caller, assignment_target_span(call.caller))
            for label in scalars
            if is_scalar(label)
        ]
    )


def _trace_read(call: Call) -> None:
    receiver, result, key = call.receiver, call.result, call.args[0]
    if isinstance(receiver, pd.Series):
        _trace_series_read(call, key)
        return
    version: FrameVersion = call.pre_state
    rows, columns_key = _split_key(receiver, key)
    row_provenance = union(_row_provenance(rows, call, FILTER), _label_provenance(rows, call, version, FILTER))
    if isinstance(result, pd.DataFrame):
        by_level = call.name == "loc" and columns_key is not None and isinstance(version.columns, pd.MultiIndex)
        edges = sublevel_edges(columns_key, version) if by_level else None
        record_created(call, edges or IdentityEdges(version), row_provenance, (version,))
        return
    fields = version.fields(_selected_labels(receiver, columns_key, by_label=call.name in ("loc", "at")))
    if isinstance(result, pd.Series):
        levels = version.levels()
        attach_to_series(result, fields, levels or None, row_provenance or None)
        record_read(call.caller, fields)
    elif is_scalar(result):
        record_extracted_scalar(call.caller, result, union(fields, row_provenance))


def _trace_series_read(call: Call, key: Any) -> None:
    lineage = call.pre_state
    if isinstance(call.result, pd.Series):
        row_provenance = _row_provenance(key, call, FILTER)
        attach_to_series(call.result, lineage.provenance, lineage.index, union(lineage.rows, row_provenance) or None)
    elif is_scalar(call.result):
        record_extracted_scalar(call.caller, call.result, lineage.combined())


def _trace_write(call: Call) -> None:
    receiver, (key, value) = call.receiver, call.args
    if isinstance(receiver, pd.Series):
        record_series_cells(call, _row_provenance(key, call, CONDITIONAL))
        return
    version: FrameVersion = call.pre_state
    rows, columns_key = _split_key(receiver, key)
    labels = _selected_labels(receiver, columns_key, by_label=call.name in ("loc", "at"))
    row_provenance = union(
        _row_provenance(rows, call, CONDITIONAL), _label_provenance(rows, call, version, CONDITIONAL)
    )
    is_full_column = isinstance(rows, slice) and rows == _FULL_SLICE
    fields = {}
    for label, assigned in zip(labels, _values_by_label(value, labels, call), strict=True):
        previous = apply_direct(version.field(label), TRANSFORMATION) if version.has(label) else {}
        fields[label] = (
            assigned if is_full_column else union(previous, apply_direct(assigned, TRANSFORMATION), row_provenance)
        )
    record_mutated(call, IdentityEdges(version, IDENTITY, fields))


def _values_by_label(value: Any, labels: list[Hashable], call: Call) -> list[Provenance]:
    if isinstance(value, pd.DataFrame):
        source = current_version(value)
        return [source.field(label) if source.has(label) else {} for label in labels]
    if isinstance(value, pd.Series) and len(labels) > 1 and all(label in value.index for label in labels):
        # A Series aligned with the columns, such as `df.sum()`.
        return [entry_for_label(provenance_or_empty(value), label) for label in labels]
    return provenance_per_column(value, len(labels), call)
