"""The three event files of a session, and the expansion progress of the logs next to them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.capture.streams.encoding import encode
from clew.capture.streams.log import STATE_FOLDER

RUNTIME = "marimo_runtime.jsonl"
LINEAGE = "marimo_lineage_events.jsonl"
DATAFRAME = "marimo_dataframe_lineage.jsonl"
FILES = (RUNTIME, LINEAGE, DATAFRAME)
# Written by OpenLineage's listener in the JVM of a Spark session.
SPARK = "spark_lineage_events.jsonl"

_PROGRESS = "progress.json"
# Position of a log after the session end was written on behalf of a killed kernel.
CLOSED = -1


def streams_folder(session_id: str) -> Path:
    """Return `CLEW_OUT`, or a folder per session in `CLEW_STREAMS` or in `streams` of the data directory."""
    exact = os.environ.get("CLEW_OUT")
    if exact:
        return Path(exact)
    root = os.environ.get("CLEW_STREAMS")
    if root:
        return Path(root) / session_id
    from clew.home import DataDir

    return DataDir.find().streams / session_id


class ExpansionProgress(Struct):
    """Expanded bytes of each log, and the sizes of the event files after that."""

    logs: dict[str, int]
    sizes: dict[str, int]


class StreamFiles:
    """The three event files of a folder. The caller must hold the folder's lock to append."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pending: dict[str, list[bytes]] = {name: [] for name in FILES}

    def progress(self) -> ExpansionProgress:
        """Load the progress and truncate the event files to it, dropping an incomplete append."""
        try:
            progress = msgspec.json.decode(
                (self.folder / STATE_FOLDER / _PROGRESS).read_bytes(), type=ExpansionProgress
            )
        except (FileNotFoundError, msgspec.DecodeError):
            # Saved before anything is appended: existing content of the files must not be truncated.
            return self._save_progress({})
        for name, size in self._sizes().items():
            if size > progress.sizes.get(name, 0):
                os.truncate(self.folder / name, progress.sizes.get(name, 0))
        return progress

    def add(self, stream: str, event: dict[str, Any]) -> None:
        """Buffer an event until the next `commit`."""
        self._pending[stream].append(encode(event) + b"\n")

    def commit(self, logs: dict[str, int]) -> None:
        """Append the buffered events, then save the progress."""
        pending, self._pending = self._pending, {name: [] for name in FILES}
        for name, lines in pending.items():
            if lines:
                with (self.folder / name).open("ab") as file:
                    file.writelines(lines)
        self._save_progress(logs)

    def _save_progress(self, logs: dict[str, int]) -> ExpansionProgress:
        progress = ExpansionProgress(logs, self._sizes())
        path = self.folder / STATE_FOLDER / _PROGRESS
        draft = path.with_suffix(".tmp")
        draft.write_bytes(msgspec.json.encode(progress))
        draft.replace(path)
        return progress

    def _sizes(self) -> dict[str, int]:
        return {name: (self.folder / name).stat().st_size for name in FILES if (self.folder / name).exists()}
