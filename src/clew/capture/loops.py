"""Loop folding: one record for all iterations that mutate a frame, so that memory does not grow with each."""

from __future__ import annotations

from clew.capture.flags import IDENTITY
from clew.capture.provenance import Provenance, compose, union
from clew.capture.records import IdentityEdges, OperationRecord
from clew.capture.versions import FrameVersion

# An iteration with more sources is not folded.
_MAX_FOLDED_SOURCES = 64


def fold_iteration(record: OperationRecord) -> OperationRecord:
    """Return the record rebased to the start of the loop if the previous iteration has its location, else itself."""
    parents = record.parents
    if len(parents) != 1:
        return record
    before = parents[0]
    earlier = before.made_by
    if earlier is None or earlier.instruction != record.instruction or earlier.code is not record.code:
        return record
    edges, previous = record.edges, earlier.edges
    if not (isinstance(edges, IdentityEdges) and isinstance(previous, IdentityEdges)):
        return record
    if edges.source is not before or edges.flags != IDENTITY or previous.flags != IDENTITY:
        return record
    changed = dict(previous.changed or {})
    for label, provenance in (edges.changed or {}).items():
        changed[label] = _rebase(provenance, before, previous)
    rows = union(earlier.rows, _rebase(record.rows, before, previous))
    if any(len(provenance) > _MAX_FOLDED_SOURCES for provenance in (*changed.values(), rows)):
        return record
    return _merged_record(record, earlier, IdentityEdges(previous.source, IDENTITY, changed), rows)


def _rebase(provenance: Provenance, before: FrameVersion, previous: IdentityEdges) -> Provenance:
    """Replace dependencies on the previous iteration by its dependencies."""
    sources = [
        compose(previous.of(label), flags) if version is before else {(version, label): flags}
        for (version, label), flags in provenance.items()
    ]
    return union(*sources)


def _merged_record(
    record: OperationRecord, earlier: OperationRecord, edges: IdentityEdges, rows: Provenance
) -> OperationRecord:
    merged = OperationRecord(record.method, record.kind, None, edges)
    merged.rows = rows
    merged.parents = earlier.parents
    merged.is_module_function = record.is_module_function
    merged.is_pending = record.is_pending
    merged.code, merged.instruction = record.code, record.instruction
    return merged
