"""Manifest of a lake, and integrity checks."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from deltalake.exceptions import DeltaError
from msgspec import Struct

from clew import __version__
from clew.data_dir import LakeLocation
from clew.errors import ClewError
from clew.events.facets import FacetOrder
from clew.lake.storage import DELTA_LOG_DIR, open_storage, table_names

# Increased when tables change incompatibly. 2: renamed tables and columns (`dataset_aliases`, `facet_error`, ...).
LAKE_FORMAT_VERSION: Final = 2
_FILE: Final = "manifest.json"
# Name of the manifest in format 1.
_OLD_FILE: Final = "clew.json"
RECREATE_HINT: Final = (
    "To recreate it, move lake, index and checkpoint away and run `clew pipeline run`, which reads the log again."
    " Events that are no longer in the log are lost."
)


class LakeManifest(Struct, frozen=True):
    """Content of the manifest file. `tables` are the source tables that must exist."""

    format_version: int
    written_by: str = "unknown"
    id: str | None = None
    tables: tuple[str, ...] = ()
    facet_order: FacetOrder = FacetOrder.RECEIVED


def lake_exists(root: LakeLocation) -> bool:
    """Return whether there is a lake at `root`; raise if it has another format version."""
    return read_manifest(root) is not None


def read_manifest(root: LakeLocation) -> LakeManifest | None:
    """Read the manifest of the lake at `root`; None if there is no lake. Raise if it has another format version."""
    for name in (_FILE, _OLD_FILE):
        text = _read(root, name)
        if text is not None:
            manifest = _parse(root / name, text)
            _check_format(root, manifest)
            return manifest
    return None


def _read(root: LakeLocation, name: str) -> bytes | None:
    try:
        return open_storage(root).read(name)
    except OSError as error:
        hint = "Fix its permissions, or pass another folder with --home DIR or --lake PATH."
        raise ClewError(f"{root / name} cannot be read: {error.strerror}.", hint=hint) from error


def _check_format(root: LakeLocation, manifest: LakeManifest) -> None:
    if manifest.format_version == LAKE_FORMAT_VERSION:
        return
    message = (
        f"The lake {root} has format {manifest.format_version}, written by clew {manifest.written_by};"
        f" clew {__version__} reads format {LAKE_FORMAT_VERSION}."
    )
    upgrade = "Nothing was changed. Upgrade: pip install -U clew."
    raise ClewError(
        message,
        hint=upgrade if manifest.format_version > LAKE_FORMAT_VERSION else f"Nothing was changed. {RECREATE_HINT}",
    )


def write_manifest(root: LakeLocation, tables: Iterable[str], facet_order: FacetOrder | None = None) -> LakeManifest:
    """Write the manifest of the lake at `root`; an existing id and, unless given, facet order are preserved."""
    existing = read_manifest(root)
    order = facet_order or (existing.facet_order if existing else FacetOrder.RECEIVED)
    lake_id = (existing and existing.id) or str(uuid.uuid4())
    manifest = LakeManifest(LAKE_FORMAT_VERSION, __version__, lake_id, tuple(tables), order)
    open_storage(root).replace(_FILE, msgspec.json.encode(manifest) + b"\n")
    return manifest


def require_lake(root: LakeLocation) -> None:
    """Raise if there is no lake at `root`."""
    if not lake_exists(root):
        hint = "It is created by the first `clew pipeline run`. Pass --home DIR for another data directory."
        raise ClewError(f"There is no lake at {root} yet.", hint=hint)


def _parse(path: LakeLocation, text: bytes) -> LakeManifest:
    try:
        values = msgspec.json.decode(text, type=dict[str, Any])
        # The name of the first versions.
        return msgspec.convert({"format_version": values.get("format"), **values}, LakeManifest, strict=False)
    except msgspec.DecodeError as error:
        message = f"{path} is not a valid lake manifest."
        raise ClewError(message, hint=f"Restore the file from a backup. {RECREATE_HINT}") from error


_RESTORE_HINT = f"Nothing was changed. Restore it from a backup. {RECREATE_HINT}"


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
