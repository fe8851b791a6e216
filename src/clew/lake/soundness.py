"""Integrity check of a lake, run before anything is written. Does not import pyarrow, which is slow to load."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from deltalake.exceptions import DeltaError

from clew.errors import ClewError
from clew.home import LakeLocation
from clew.lake.format import LakeManifest, read_manifest, require_lake
from clew.lake.storage import DELTA_LOG_DIR, open_storage, table_names

_RESTORE_HINT = (
    "Nothing was changed. Restore it from a backup; or move lake, index and checkpoint away and run"
    " `clew pipeline run`, which recreates them from the log."
)


def check_integrity(root: LakeLocation) -> None:
    """Raise if there is no lake at `root`, or if it is incomplete."""
    require_lake(root)
    manifest = read_manifest(root)
    if manifest is not None:
        check_tables(root, manifest)


def check_tables(root: LakeLocation, manifest: LakeManifest) -> None:
    """Raise if a table, its Delta log or its files are missing."""

    def check_table(name: str) -> None:
        folder, is_derived = root / name, name not in manifest.tables
        if not is_derived:
            _check_delta_log(folder)
        hint = (
            f"Delete the folder {folder}: the next `clew pipeline run` writes it again."
            if is_derived
            else _RESTORE_HINT
        )
        _check_data_files(folder, hint)

    names = (*manifest.tables, *(name for name in table_names(root) if name not in manifest.tables))
    list(open_storage(root).map_concurrently(check_table, names))


def check_no_stray_tables(root: LakeLocation, names: Iterable[str]) -> None:
    """Raise if a folder without a manifest contains some tables of a lake with rows, but not all."""
    folders = [root / name for name in names]
    has_rows = any(_has_files(folder) for folder in folders)
    for folder in folders:
        if has_rows:
            _check_delta_log(folder)


def _check_delta_log(folder: LakeLocation) -> None:
    storage = open_storage(folder)
    if not storage.has_folder():
        raise ClewError(f"The lake {folder.parent} has no table {folder.name}.", hint=_RESTORE_HINT)
    if not storage.has_folder(DELTA_LOG_DIR):
        message = f"The table {folder} has no folder {DELTA_LOG_DIR}."
        raise ClewError(message, hint=_RESTORE_HINT)


def _check_data_files(folder: LakeLocation, hint: str) -> None:
    try:
        table = open_storage(folder.parent).open_table(folder.name)
        listed = {unquote(uri.rpartition("/")[2]) for uri in table.file_uris()}
    except (DeltaError, OSError, ValueError) as error:
        raise ClewError(f"The table {folder} cannot be read: {_first_line(error)}.", hint=hint) from error
    missing = sorted(listed - {entry.name for entry in open_storage(folder).list_files()})
    if missing:
        message = f"The table {folder} lacks {len(missing):,} of its {len(listed):,} files, e.g. {missing[0]}."
        raise ClewError(message, hint=hint)


def _has_files(folder: LakeLocation) -> bool:
    return any(entry.name.endswith(".parquet") for entry in open_storage(folder).list_files())


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
