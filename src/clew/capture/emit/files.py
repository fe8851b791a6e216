"""Files of a session: kernel log, event files, progress, lock."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from clew.capture.diagnostics import CaptureLoss, record_error, warn_once
from clew.capture.lineage.operations import OperationType
from clew.data_dir import create_private_folder

_encoder = msgspec.json.Encoder(enc_hook=str)


def encode(value: Any) -> bytes:
    """Encode a value as JSON."""
    return _encoder.encode(value)


def encode_raw(value: Any) -> msgspec.Raw:
    """Encode a value as raw JSON, to be embedded in events."""
    return msgspec.Raw(_encoder.encode(value))


# Versions of the loaded backends by name.
Engines: TypeAlias = dict[str, str]
# Version number, column and transformation flags.
Dependency: TypeAlias = tuple[int, Any, int]
# Flat list with five items per type: its name, bytes per row, and the column positions as start, stop and step of a
# range or as a list and twice None.
Blocks: TypeAlias = list[str | int | list[int] | None]


class CellFailure(NamedTuple):
    """An exception with its redacted message and the traceback of user code."""

    error_type: str
    message: str
    traceback: str


class SessionStarted(Struct, frozen=True, array_like=True, tag="session"):
    """Start of a session."""

    timestamp: float
    notebook: str
    session_id: str
    run_id: str
    engines: Engines
    # Path of the notebook.
    path: str | None = None


class CellStarted(Struct, frozen=True, array_like=True, tag="cell"):
    """Start of a cell; `file` and `start` (line, column) are those of its code object."""

    timestamp: float
    run_id: str
    cell_id: str
    source: str
    name: str | None
    index: int | None
    defines: list[str]
    memory_mb: float
    file: str | None
    start: tuple[int, int] | None
    engines: Engines


class SetupCellSource(Struct, frozen=True, array_like=True, tag="setup_cell"):
    """Line range of a file that is the setup cell."""

    file: str
    text: str
    first: int
    last: int


class LabelsEntry(Struct, frozen=True, array_like=True, gc=False):
    """A numbered list of column labels."""

    number: int
    labels: list[Any]


class VersionEntry(Struct, frozen=True, array_like=True, gc=False):
    """A frame version or an external dataset."""

    number: int
    frame: int
    object_id: int
    columns: int
    index_names: list[Any]
    shape: tuple[int, int] | None
    blocks: Blocks | None
    # Set if measured, else computed from the blocks.
    bytes: int | None
    dataset: tuple[str, str] | None
    first_iteration: int | None
    engine: str
    # Of a file that was written.
    file_bytes: int | None = None


class OperationEntry(Struct, frozen=True, array_like=True, gc=False):
    """One operation. Without `source`, `fields` has all edges; with it, only those that differ from identity."""

    method: str
    kind: OperationType
    is_module_function: bool
    position: tuple[str, int, int, int, int] | None
    started: float
    duration: float
    overhead: float
    count: int
    error: tuple[str, str] | None
    output: int | None
    parents: list[int]
    read_from: int | None
    source: int | None
    flags: int
    fields: list[tuple[Any, list[Dependency]]]
    rows: list[Dependency]
    written_types: list[tuple[Any, str]] | None
    engine: str
    # Text of a SQL query.
    query: str | None = None


class RepeatEntry(Struct, frozen=True, array_like=True, gc=False):
    """New totals of an operation already logged: its index in the cell, count, duration and overhead."""

    index: int
    count: int
    duration: float
    overhead: float


class CellProgress(Struct, frozen=True, array_like=True, tag="progress"):
    """New and repeated operations of a running cell."""

    timestamp: float
    run_id: str
    engines: Engines
    labels: list[LabelsEntry]
    versions: list[VersionEntry]
    records: list[OperationEntry]
    repeated: list[RepeatEntry]


class OperationStarted(Struct, frozen=True, array_like=True, tag="operation"):
    """An operation that is still running; its `OperationEntry` has the same `started`."""

    timestamp: float
    run_id: str
    engines: Engines
    labels: list[LabelsEntry]
    versions: list[VersionEntry]
    method: str
    kind: OperationType
    is_module_function: bool
    position: tuple[str, int, int, int, int] | None
    started: float
    parents: list[int]
    engine: str
    query: str | None


# Key of a frame's memory in its logged metrics: bytes, and whether they are exact.
MEMORY = "memory"


class CellEnded(Struct, frozen=True, array_like=True, tag="end"):
    """End of a cell, with the operations not logged yet and the variables that hold frames."""

    timestamp: float
    run_id: str
    duration: float
    memory_mb: float
    is_stopped: bool
    failure: CellFailure | None
    engines: Engines
    bound: dict[str, int]
    labels: list[LabelsEntry]
    versions: list[VersionEntry]
    records: list[OperationEntry]
    metrics: list[tuple[int, dict[str, Any]]]
    # Descriptions of the columns of a version.
    descriptions: list[tuple[int, dict[str, str]]]
    losses: list[CaptureLoss]


class SessionEnded(Struct, frozen=True, array_like=True, tag="close"):
    """End of a session, with the losses after its last cell."""

    timestamp: float
    losses: list[CaptureLoss] = []


Entry: TypeAlias = (
    SessionStarted | CellStarted | SetupCellSource | OperationStarted | CellProgress | CellEnded | SessionEnded
)

_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def encode_entry(entry: Any) -> bytes:
    """Encode an entry or a part of one as JSON; unsupported types are written as text."""
    return _encoder.encode(entry)


def decode_entry(line: bytes) -> Entry:
    """Decode a line."""
    return _decoder.decode(line)


STATE_FOLDER = ".capture"
_LOG_SUFFIX = ".log"


class KernelLog:
    """Append-only log of one session. Lines are written unbuffered, so they survive a killed kernel.

    A disk error loses events, but never affects the notebook.
    """

    def __init__(self, folder: Path, session_id: str) -> None:
        self.folder = folder
        self.path = folder / STATE_FOLDER / f"{session_id}{_LOG_SUFFIX}"
        self._process = os.getpid()
        self._file: int | None = None
        self._is_torn = False

    def append(self, line: bytes) -> bool:
        """Write a line; return False if it was lost."""
        if os.getpid() != self._process:
            # A forked child must not write into its parent's files.
            return True
        try:
            if self._file is None:
                self._file = self._open_locked()
            # Terminate a line that a full disk cut off.
            _write(self._file, b"\n" + line if self._is_torn else line)
        except OSError as error:
            self._is_torn = self._file is not None
            record_error("write", error)
            warn_once(f"cannot write {self.path}: {error.strerror or error}; events are being lost")
            return False
        self._is_torn = False
        return True

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and os.getpid() == self._process:
            os.close(self._file)
            self._file = None

    def after_fork(self) -> None:
        """Close the file in a forked child, so that the lock is released when the parent exits."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open_locked(self) -> int:
        create_private_folder(self.path.parent)
        try:
            file = _open(self.path)
        except FileNotFoundError:
            # Removed just now by the expansion of another session of this folder.
            create_private_folder(self.path.parent)
            file = _open(self.path)
        fcntl.flock(file, fcntl.LOCK_EX)
        return file


def _open(path: Path) -> int:
    # Readable by the user only: the log holds cell sources before secrets are redacted.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _write(file: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(file, rest) :]


def logs_in(folder: Path) -> list[Path]:
    """Return the logs in `folder` that are not fully expanded."""
    return sorted((folder / STATE_FOLDER).glob(f"*{_LOG_SUFFIX}"))


def is_abandoned(log: Path) -> bool:
    """Return whether the kernel of a log has exited, which releases its lock."""
    try:
        with log.open("rb") as file:
            # Shared, so that two concurrent checks do not mistake each other for the kernel.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):
        # The kernel is running, or another process has just removed the log.
        return False
    return True


def folders_with_logs(root: Path) -> Iterator[Path]:
    """Yield the session folders below `root` with logs that are not fully expanded."""
    for folder in sorted(root.glob(f"*/{STATE_FOLDER}")):
        yield folder.parent


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
    from clew.data_dir import DataDir

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
                with os.fdopen(_open(self.folder / name), "ab") as file:
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
