"""Loops that change a frame again and again: one record stands for all rounds, or memory would grow with each."""

from __future__ import annotations

from clew.capture.flags import IDENTITY
from clew.capture.provenance import Provenance, composed, union
from clew.capture.records import Record, SameLabels
from clew.capture.versions import FrameVersion

# Beyond this many sources a round brings too much of its own to be folded into the one before.
_SOURCES_FOLDED = 64


def folded(entry: Record) -> Record:
    """The record told from where the loop began, if the round before it stood at the same place; else itself."""
    parents = entry.parents
    if len(parents) != 1:
        return entry
    before = parents[0]
    earlier = before.made_by
    if earlier is None or earlier.instruction != entry.instruction or earlier.code is not entry.code:
        return entry
    edges, previous = entry.edges, earlier.edges
    if not (isinstance(edges, SameLabels) and isinstance(previous, SameLabels)):
        return entry
    if edges.source is not before or edges.flags != IDENTITY or previous.flags != IDENTITY:
        return entry
    changed = dict(previous.changed or {})
    for label, provenance in (edges.changed or {}).items():
        changed[label] = _through_round(provenance, before, previous)
    rows = union(earlier.rows, _through_round(entry.rows, before, previous))
    if any(len(provenance) > _SOURCES_FOLDED for provenance in (*changed.values(), rows)):
        return entry
    return _told_as_one(entry, earlier, SameLabels(previous.source, IDENTITY, changed), rows)


def _through_round(provenance: Provenance, before: FrameVersion, previous: SameLabels) -> Provenance:
    """What a round reads of the round before it, said of what that one read."""
    found = [
        composed(previous.of(label), flags) if version is before else {(version, label): flags}
        for (version, label), flags in provenance.items()
    ]
    return union(*found)


def _told_as_one(entry: Record, earlier: Record, edges: SameLabels, rows: Provenance) -> Record:
    one = Record(entry.method, entry.kind, None, edges)
    one.rows = rows
    one.parents = earlier.parents
    one.is_module_function = entry.is_module_function
    one.is_pending = entry.is_pending
    one.code, one.instruction = entry.code, entry.instruction
    return one
