"""The three files of a session, and how far the logs beside them were expanded into these."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.capture.streams.encoding import encode
from clew.capture.streams.log import FOLDER

RUNTIME = "marimo_runtime.jsonl"
LINEAGE = "marimo_lineage_events.jsonl"
DATAFRAME = "marimo_dataframe_lineage.jsonl"
FILES = (RUNTIME, LINEAGE, DATAFRAME)
# OpenLineage's listener writes it, in the JVM of a Spark session that a cell made.
SPARK = "spark_lineage_events.jsonl"

_PROGRESS = "progress.json"
# Stands for the position in a log whose session's end has been written, though its kernel could not tell of it.
CLOSED = -1


def streams_folder(session_id: str) -> Path:
    """`CLEW_OUT` takes the files themselves; else a folder per session in `CLEW_STREAMS` or in the home's `streams`."""
    exact = os.environ.get("CLEW_OUT")
    if exact:
        return Path(exact)
    root = os.environ.get("CLEW_STREAMS")
    if root:
        return Path(root) / session_id
    from clew.home import Home

    return Home.find().streams / session_id


class Progress(Struct):
    """How many bytes of each log have been expanded, and how large the three files were after that."""

    logs: dict[str, int]
    sizes: dict[str, int]


class StreamFiles:
    """The three files of a folder. Whoever appends holds the folder's lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pending: dict[str, list[bytes]] = {name: [] for name in FILES}

    def progress(self) -> Progress:
        """How far it went; what was appended after that was cut short, and is taken away."""
        try:
            progress = msgspec.json.decode((self.folder / FOLDER / _PROGRESS).read_bytes(), type=Progress)
        except (FileNotFoundError, msgspec.DecodeError):
            # Noted before anything is appended: what stands there already is not ours to take away.
            return self._note({})
        for name, size in self._sizes().items():
            if size > progress.sizes.get(name, 0):
                os.truncate(self.folder / name, progress.sizes.get(name, 0))
        return progress

    def add(self, stream: str, event: dict[str, Any]) -> None:
        """Append an event with the next `commit`."""
        self._pending[stream].append(encode(event) + b"\n")

    def commit(self, logs: dict[str, int]) -> None:
        """Append what was added, then note how far that went."""
        pending, self._pending = self._pending, {name: [] for name in FILES}
        for name, lines in pending.items():
            if lines:
                with (self.folder / name).open("ab") as file:
                    file.writelines(lines)
        self._note(logs)

    def _note(self, logs: dict[str, int]) -> Progress:
        progress = Progress(logs, self._sizes())
        path = self.folder / FOLDER / _PROGRESS
        draft = path.with_suffix(".tmp")
        draft.write_bytes(msgspec.json.encode(progress))
        draft.replace(path)
        return progress

    def _sizes(self) -> dict[str, int]:
        return {name: (self.folder / name).stat().st_size for name in FILES if (self.folder / name).exists()}
