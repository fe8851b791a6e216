"""Back up and restore a data directory, also while collector and pipeline are running.

The copy is consistent because of its order:

1. event files of notebooks, before the log: what they lack is in the log
2. the index, before the lake: it never has events that the lake lacks
3. the versions of all tables after the last complete batch, and the checkpoint of that batch; then their data files,
   which do not change
4. the log, last: it has every event that was acknowledged when the backup was started, and all that the rest refers to

A restored pipeline continues after that batch. It writes batches to the index that the copy of the index lacks.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from msgspec import Struct

from clew import __version__
from clew.data_dir import DataDir, create_private_folder
from clew.errors import ClewError, UsageError
from clew.lake.schemas import ALL_TABLE_NAMES, BACKFILLS, LINEAGE_EVENTS
from clew.pipeline.checkpoint import NO_BATCH, Checkpoint
from clew.pipeline.locks import BACKFILL_LOCK, acquire_lock
from clew.progress import ProgressCallback, no_progress

_MANIFEST: Final = "backup.json"
_PARTIAL_SUFFIX = ".partial"
_DELTA_LOG = "_delta_log"
_DELTA_FILE = re.compile(r"(\d{20})\.(json|checkpoint\..*parquet|checkpoint\.parquet)")


class BackupManifest(Struct, frozen=True):
    """Content of a backup: the ingested position, the version of each table, and the size of each file."""

    created_at: str
    clew_version: str
    last_batch: int
    position: int
    tables: dict[str, int]
    has_index: bool
    files: dict[str, int]

    @property
    def bytes(self) -> int:
        """Total size."""
        return sum(self.files.values())


class _Cut(Struct, frozen=True):
    """The last complete batch, and the version of each table after it."""

    batch: int
    tables: dict[str, int]


def create_backup(home: DataDir, target: Path, on_progress: ProgressCallback = no_progress) -> BackupManifest:
    """Copy a data directory to a new folder, which is complete once it has its name."""
    _check_source(home, target)
    partial = target.with_name(f"{target.name}{_PARTIAL_SUFFIX}")
    shutil.rmtree(partial, ignore_errors=True)
    copy = DataDir(partial)
    create_private_folder(partial)
    on_progress("Copying event files and keys")
    _copy_tree(home.streams, copy.streams)
    _copy_files([home.keys], home.root, partial)
    on_progress("Copying the index")
    has_index = home.database_url is None and _copy_index(home.index_file, copy.index_file)
    on_progress("Copying the lake")
    # A chunk of a backfill is several commits.
    lake = home.lake_folder
    if lake.exists():
        with acquire_lock(lake / BACKFILL_LOCK, "backfill"):
            _copy_state(lake, copy.lake_folder)
            cut = _find_cut(home, lake)
            position = _copy_checkpoint(home, copy, cut.batch)
        if not has_index:
            Checkpoint(copy.checkpoint).request_reindex()
        for name, version in cut.tables.items():
            _copy_table(lake / name, copy.lake_folder / name, version)
    else:
        cut, position = _Cut(NO_BATCH, {}), 0
    on_progress("Copying the log")
    _copy_tree(home.log, copy.log)
    manifest = BackupManifest(
        datetime.now(UTC).isoformat(timespec="seconds"),
        __version__,
        cut.batch,
        position,
        cut.tables,
        has_index,
        {str(path.relative_to(partial)): path.stat().st_size for path in sorted(_files(partial))},
    )
    (partial / _MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    partial.replace(target)
    return manifest


def restore_backup(source: Path, home: DataDir, on_progress: ProgressCallback = no_progress) -> BackupManifest:
    """Copy a backup to a data directory that does not exist yet."""
    manifest = read_backup(source)
    if home.external_lake is not None or home.database_url is not None:
        hint = "Unset CLEW_LAKE and CLEW_INDEX, and the settings lake and index. Set them again afterwards if needed."
        raise UsageError("A backup is restored to a data directory with its own lake and index.", hint=hint)
    if home.root.exists() and any(home.root.iterdir()):
        raise UsageError(f"{home.root} is not empty.", hint="Pass a new folder with --home.")
    on_progress("Checking the backup")
    for name, size in manifest.files.items():
        path = source / name
        if not path.is_file() or path.stat().st_size != size:
            raise ClewError(
                f"The backup is damaged: {path} is missing or has another size.", hint="Use another backup."
            )
    on_progress("Copying files")
    home.create()
    _copy_files((source / name for name in manifest.files), source, home.root)
    return manifest


def read_backup(source: Path) -> BackupManifest:
    """Read the description of a backup."""
    try:
        return msgspec.json.decode((source / _MANIFEST).read_bytes(), type=BackupManifest)
    except (OSError, msgspec.DecodeError) as error:
        hint = "Pass a folder that `clew backup` has written."
        raise UsageError(f"{source} is not a complete backup.", hint=hint) from error


def _check_source(home: DataDir, target: Path) -> None:
    if not home.root.is_dir():
        raise UsageError(f"There is no data directory at {home.root}.", hint="Pass it with --home.")
    if home.external_lake is not None and not isinstance(home.external_lake, Path):
        hint = "Copy the bucket with its own tools; see Back up and restore in docs/operate.md."
        raise UsageError(f"The lake {home.lake} is not in the data directory.", hint=hint)
    if target.exists():
        raise UsageError(f"{target} exists already.", hint="Pass a new folder.")
    if home.root.resolve() in (target.resolve(), *target.resolve().parents):
        raise UsageError(f"{target} is in the data directory.", hint="Pass a folder elsewhere.")


def _copy_index(index: Path, target: Path) -> bool:
    """Copy a snapshot of the index; return False if there is none."""
    if not index.exists():
        return False
    with (
        closing(sqlite3.connect(f"{index.as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(target)) as copy,
    ):
        # In one step: the source is read in one transaction.
        source.backup(copy, pages=-1)
    return True


def _copy_state(lake: Path, target: Path) -> None:
    """Copy the files beside the tables: the manifest, and the positions of the derived tables, before the tables."""
    _copy_files((path for path in lake.iterdir() if path.is_file() and path.suffix == ".json"), lake, target)


def _find_cut(home: DataDir, lake: Path) -> _Cut:
    """Find the last complete batch, and the versions of the tables without later batches."""
    app_id = Checkpoint(home.checkpoint).stored_app_id
    events = _open_table(lake / LINEAGE_EVENTS.name)
    # This table is committed last.
    batch = NO_BATCH if events is None or not app_id else _batch_of(events, app_id)
    versions = {}
    for name in (*ALL_TABLE_NAMES, BACKFILLS.name):
        table = _open_table(lake / name)
        if table is None:
            continue
        while app_id and _batch_of(table, app_id) > batch:
            table.load_as_version(table.version() - 1)
        versions[name] = table.version()
    return _Cut(batch, versions)


def _open_table(path: Path) -> DeltaTable | None:
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def _batch_of(table: DeltaTable, app_id: str) -> int:
    version = table.transaction_version(app_id)
    return NO_BATCH if version is None else version


def _copy_checkpoint(home: DataDir, copy: DataDir, batch: int) -> int:
    """Copy the checkpoint as it was after a batch; return the position of the log up to which it has ingested."""
    source, target = Checkpoint(home.checkpoint), Checkpoint(copy.checkpoint)
    if not home.checkpoint.exists():
        return 0
    position = source.batch_end_offset(batch)
    if position is None:
        message = f"The checkpoint {home.checkpoint} has no position of batch {batch}."
        raise ClewError(message, hint="Run `clew pipeline run`, which repairs it, and try again.")
    source.copy_until(batch, target.root)
    return position


def _copy_table(source: Path, target: Path, version: int) -> None:
    """Copy one version of a table: its log up to the version, and the data files of the version."""
    table = DeltaTable(source, version=version)
    files = [Path(uri.removeprefix("file://")) for uri in table.file_uris()]
    _copy_files(files, source.resolve(), target)
    log = source / _DELTA_LOG
    names = [(path, match) for path in log.iterdir() if (match := _DELTA_FILE.fullmatch(path.name)) is not None]
    # Newest first: old ones are deleted once a checkpoint replaces them.
    wanted = sorted((path for path, match in names if int(match[1]) <= version), reverse=True)
    _copy_files(wanted, source, target)
    if DeltaTable(target).version() != version:
        raise ClewError(f"The table {source} changed while it was copied.", hint="Try again.")


def _copy_tree(source: Path, target: Path) -> None:
    if source.exists():
        _copy_files(sorted(_files(source)), source, target)


def _copy_files(files: Iterable[Path], root: Path, target: Path) -> None:
    """Copy files to the same place below another folder; those that were deleted meanwhile are left out."""
    for path in files:
        copy = target / path.relative_to(root)
        create_private_folder(copy.parent)
        try:
            shutil.copy2(path, copy)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ClewError(f"Cannot copy {path} to {copy}: {error.strerror}.", hint="Check the disk.") from error


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
