"""Whether log, checkpoint, lake and index belong together: looked at once, before anything is taken in."""

from __future__ import annotations

import json

from clew.collector.segments import segments
from clew.errors import ClewError
from clew.home import Home
from clew.index.sink import IndexSink
from clew.lake.delta import Lake
from clew.lake.format import read_marker
from clew.lake.tables import ONE_ROW_PER_EVENT
from clew.pipeline.checkpoint import Checkpoint

_OWNER = "lake.json"


def require_agreement(home: Home, lake: Lake, index: IndexSink) -> None:
    """Refuse to go on with parts of different homes; a checkpoint that is new is given to the lake."""
    checkpoint = Checkpoint(home.checkpoint)
    _require_same_lake(checkpoint, lake)
    require_log(home)
    _require_index(index, lake)


def _require_same_lake(checkpoint: Checkpoint, lake: Lake) -> None:
    marker = read_marker(lake.root)
    own = "" if marker is None else marker.id
    owner = _owner(checkpoint)
    if owner is None:
        checkpoint.root.mkdir(parents=True, exist_ok=True)
        (checkpoint.root / _OWNER).write_text(json.dumps({"id": own, "path": str(lake.root)}) + "\n")
    elif owner["id"] != own:
        message = (
            f"The checkpoint {checkpoint.root} belongs to the lake {owner['id']}, last seen at {owner['path']};"
            f" {lake.root} is the lake {own}."
        )
        hint = (
            "Name the lake that it belongs to with --lake PATH. Or move checkpoint and index away: the log is then read"
            " from its start into this lake, and what it holds already is not doubled."
        )
        raise ClewError(message, hint=hint)


def _owner(checkpoint: Checkpoint) -> dict[str, str] | None:
    try:
        found = json.loads((checkpoint.root / _OWNER).read_text())
        return {"id": str(found["id"]), "path": str(found["path"])}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def require_log(home: Home) -> None:
    """Refuse a log that is not the one that was read so far. To be asked before anything is appended to it."""
    folder, checkpoint = home.log, Checkpoint(home.checkpoint)
    position, found = checkpoint.position, segments(folder)
    start, end = (found[0].base, found[-1].end) if found else (0, 0)
    hint = (
        f"Restore the log from a copy. Or move {checkpoint.root} away: the log is then read from its start, and events"
        " that the lake knows are not doubled."
    )
    if end < position:
        message = f"The log {folder} ends at {end:,}, before the position {position:,} that was taken in already."
        raise ClewError(message, hint=hint)
    if 0 < position < start:
        message = f"The log {folder} begins at {start:,}; events from {position:,} on were not taken in and are gone."
        raise ClewError(message, hint=hint)


def _require_index(index: IndexSink, lake: Lake) -> None:
    """An index is written after the lake, so it never knows more. If it did, events would be taken for known."""
    rows = lake.row_counts()
    stored, known = sum(rows.get(name, 0) for name in ONE_ROW_PER_EVENT), index.event_count
    if known > stored:
        message = f"The index {index.place} knows {known:,} events, and the lake {lake.root} holds {stored:,}."
        hint = (
            "They do not belong together. Move the index away, and it is built anew from the lake; if events are"
            " missing there, move the checkpoint away as well: the log fills them in."
        )
        raise ClewError(message, hint=hint)
