"""Where the streams go: three files, appended to and flushed at every cell's end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

from clew.capture.losses import count_loss, notice_once
from clew.capture.streams.encoding import encode

RUNTIME = "marimo_runtime.jsonl"
LINEAGE = "marimo_lineage_events.jsonl"
DATAFRAME = "marimo_dataframe_lineage.jsonl"
FILES = (RUNTIME, LINEAGE, DATAFRAME)


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


class StreamFiles:
    """The three files of a session. A disk that refuses costs events, never the notebook."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[str, IO[bytes]] = {}
        self._process = os.getpid()

    def write(self, stream: str, *events: dict[str, Any]) -> None:
        """Append events to one stream, whole lines at a time."""
        if not events or os.getpid() != self._process:
            # A forked child must not write into its parent's files.
            return
        try:
            file = self._file(stream)
            file.write(b"".join(encode(event) + b"\n" for event in events))
        except OSError as error:
            count_loss(f"write {stream}", error)
            notice_once(f"cannot write {self.folder / stream}: {error.strerror or error}; events are being lost")

    def flush(self) -> None:
        """Hand everything to the system: it survives the kernel's death."""
        for stream, file in self._open.items():
            try:
                file.flush()
            except OSError as error:
                count_loss(f"flush {stream}", error)
                notice_once(f"cannot write {self.folder / stream}: {error.strerror or error}; events are being lost")

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _file(self, stream: str) -> IO[bytes]:
        if stream not in self._open:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Buffered: flushed at the end of each cell, not at each event.
            self._open[stream] = (self.folder / stream).open("ab", buffering=1 << 20)
        return self._open[stream]
