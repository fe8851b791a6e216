"""State of the imports of one source, so that an import continues and can be repeated: `imports/<source>.json`."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct, field

from clew.data_dir import DataDir, create_private_folder, replace_file
from clew.events.ids import event_id
from clew.importer.marquez_database import EventPlan, ReadPosition, RowRange

_FOLDER = "imports"
# Events of the last minute before the newest one; a server of Marquez accepts some dozens per second.
_MAX_RECENT_IDS = 200_000


class ImportState(Struct):
    """What was imported from a source.

    `recent_ids` are the events that the next import reads again, `annotations` the hash of each annotation that was
    imported: one that users changed later is not overwritten.
    """

    source: str
    position: ReadPosition = ReadPosition()
    events: int = 0
    recent_ids: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    entity_ids: set[str] = field(default_factory=set)
    # Entities were read at least once.
    has_entities: bool = False

    @classmethod
    def load(cls, home: DataDir, source: str, identity: str) -> Self:
        """Read the state of a source; a new one if there is none."""
        try:
            return msgspec.json.decode(_path(home, identity).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            # Everything is read again; events that are known are skipped by the pipeline.
            return cls(source)

    def save(self, home: DataDir, identity: str) -> None:
        """Write the state."""
        path = _path(home, identity)
        create_private_folder(path.parent)
        self.recent_ids = self.recent_ids[-_MAX_RECENT_IDS:]
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(self))
        temporary.replace(path)

    def advance(self, chunk: RowRange, plan: EventPlan, event_ids: list[str]) -> None:
        """Record that a chunk is in the log."""
        if chunk.column != "created_at":
            self.position = ReadPosition(self.position.received, chunk.upper)
            return
        # In ISO format and UTC, later times are greater texts.
        upper = min(chunk.upper, plan.recent_from or chunk.upper)
        self.position = ReadPosition(upper, self.position.occurred)
        self.recent_ids += event_ids

    def new_events(self, events: list[bytes]) -> list[bytes]:
        """Return the events of entities that differ from the last import, and record them."""
        new = [body for body in events if event_id(body) not in self.entity_ids]
        self.entity_ids |= set(map(event_id, new))
        return new

    def new_annotations(self, annotations: dict[str, bytes]) -> list[tuple[str, bytes]]:
        """Return the annotations that differ from the last import, and record them."""
        hashes = {key: sha256(body).hexdigest()[:16] for key, body in annotations.items()}
        new = [(key, body) for key, body in annotations.items() if self.annotations.get(key) != hashes[key]]
        self.annotations |= hashes
        return new


def erase_from_states(home: DataDir, is_about: Callable[[str], bool]) -> int:
    """Delete the annotations of erased entities from the states of all sources; return their number."""
    count = 0
    for path in sorted(imports_folder(home).glob("*.json")):
        state = msgspec.json.decode(path.read_bytes(), type=ImportState)
        kept = {key: value for key, value in state.annotations.items() if not is_about(key)}
        if len(kept) < len(state.annotations):
            count += len(state.annotations) - len(kept)
            replace_file(path, msgspec.json.encode(msgspec.structs.replace(state, annotations=kept)))
    return count


def imports_folder(home: DataDir) -> Path:
    """Return the folder of the states."""
    return home.root / _FOLDER


def _path(home: DataDir, identity: str) -> Path:
    return imports_folder(home) / f"{sha256(identity.encode()).hexdigest()[:16]}.json"
