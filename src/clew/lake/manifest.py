"""Manifest of a lake, and integrity checks."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec
from deltalake.exceptions import DeltaError
from msgspec import Struct

from clew import __version__
from clew.data_dir import LakeLocation
from clew.errors import ClewError
from clew.events.facets import FacetOrder
from clew.lake.file_check import CheckLevel, FileState, check_file
from clew.lake.storage import DELTA_LOG_DIR, REPAIR_LOG_DIR, open_storage, table_names

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


_REPAIR_HINT = "Nothing was changed. Run `clew doctor --repair`: it writes the file again. Or restore it from a backup."
_STORED_ID = re.compile(rb'"id":"([0-9a-f-]{36})"')
_STORED_ORDER = re.compile(rb'"facet_order":"(%s)"' % "|".join(FacetOrder).encode())


class DamagedManifestError(ClewError):
    """Raised if the manifest of a lake cannot be parsed."""


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
    except PermissionError as error:
        hint = "Fix its permissions, or pass another folder with --home DIR or --lake PATH."
        raise ClewError(f"{root / name} cannot be read: {error.strerror}.", hint=hint) from error
    except OSError as error:
        message = f"{root / name} cannot be read: {error.strerror}."
        raise DamagedManifestError(message, hint=_REPAIR_HINT) from error


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
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedManifestError(f"{path} is not a valid lake manifest.", hint=_REPAIR_HINT) from error


def find_manifest_damage(root: LakeLocation, tables: Collection[str]) -> str | None:
    """Return why the manifest cannot be read, or that it is missing although any of these tables exists."""
    try:
        is_missing = read_manifest(root) is None and not tables_are_absent(root, tables)
    except DamagedManifestError as error:
        return error.message
    return f"The lake {root} has tables, but no {_FILE}." if is_missing else None


def tables_are_absent(root: LakeLocation, tables: Collection[str]) -> bool:
    """Return whether none of these tables exists."""
    return not set(tables) & set(table_names(root))


def restore_manifest(
    root: LakeLocation, tables: Iterable[str], lake_id: str | None, facet_order: FacetOrder | None
) -> None:
    """Write a missing or damaged manifest again; what is not given is read from the damaged file, if it has it."""
    storage = open_storage(root)
    try:
        text = storage.read(_FILE) or b""
    except OSError:
        text = b""
    stored_id, stored_order = _STORED_ID.search(text), _STORED_ORDER.search(text)
    order = facet_order or (FacetOrder(stored_order[1].decode()) if stored_order else FacetOrder.RECEIVED)
    lake_id = lake_id or (stored_id[1].decode() if stored_id else str(uuid.uuid4()))
    manifest = LakeManifest(LAKE_FORMAT_VERSION, __version__, lake_id, tuple(tables), order)
    storage.replace(_FILE, msgspec.json.encode(manifest) + b"\n")


_RESTORE_HINT = (
    "Nothing was changed. Run `clew doctor --repair`: it re-creates what the log and the other tables have."
    f" Or restore it from a backup. {RECREATE_HINT}"
)
# Version in 20 digits: text order is version order.
COMMIT_FILE: Final = re.compile(r"\d{20}\.json")
_CHECKPOINT_FILE: Final = re.compile(r"\d{20}\.checkpoint\..*parquet")


def check_integrity(root: LakeLocation) -> None:
    """Raise if there is no lake at `root`, or if it is incomplete."""
    require_lake(root)
    manifest = read_manifest(root)
    if manifest is not None:
        check_tables(root, manifest)


def check_tables(root: LakeLocation, manifest: LakeManifest) -> None:
    """Raise if a table, its Delta log or its files are missing or damaged."""

    def check_table(name: str) -> None:
        damage = find_damage(root / name, CheckLevel.SIZES)
        if damage is None or (damage.is_missing and name not in manifest.tables):
            return
        hint = (
            _RESTORE_HINT
            if name in manifest.tables
            else f"Delete the folder {root / name}, or run `clew doctor --repair`: it is written again."
        )
        raise ClewError(damage.message, hint=hint)

    names = (*manifest.tables, *(name for name in table_names(root) if name not in manifest.tables))
    list(open_storage(root).map_concurrently(check_table, names))


class TableDamage(NamedTuple):
    """Damage of a table: its Delta log cannot be read, or some of its data files are missing or damaged."""

    message: str
    files: tuple[str, ...] = ()
    is_missing: bool = False


def find_damage(folder: LakeLocation, level: CheckLevel = CheckLevel.FOOTERS) -> TableDamage | None:
    """Find missing and damaged files of a table."""
    storage = open_storage(folder)
    if not storage.has_folder():
        return TableDamage(f"The lake {folder.parent} has no table {folder.name}.", is_missing=True)
    if storage.has_folder(REPAIR_LOG_DIR):
        return TableDamage(f"The repair of the table {folder} was interrupted.")
    if not storage.has_folder(DELTA_LOG_DIR):
        return TableDamage(f"The table {folder} has no folder {DELTA_LOG_DIR}.", is_missing=True)
    commit = _find_damaged_commit(folder, is_deep=False)
    try:
        table = open_storage(folder.parent).open_table(folder.name)
        actions = table.get_add_actions(flatten=True) if commit is None else None
    except (DeltaError, OSError, ValueError) as error:
        reason = _find_damaged_commit(folder, is_deep=True) or _first_line(error)
        return TableDamage(f"The table {folder} cannot be read: {reason}.")
    if actions is None:
        return TableDamage(f"The table {folder} cannot be read: {commit}.")
    return _find_damaged_files(folder, actions, level)


def _find_damaged_files(folder: LakeLocation, actions: Any, level: CheckLevel) -> TableDamage | None:
    """Find missing and damaged files of the add actions of a table."""
    rows = (
        _to_rows(actions)
        if level is CheckLevel.CONTENT
        else (
            {"path": path, "size_bytes": size}
            for path, size in zip(*(actions.column(name).to_pylist() for name in ("path", "size_bytes")), strict=True)
        )
    )
    action_by_name = {unquote(action["path"]): action for action in rows}
    present = {entry.name: entry.size for entry in open_storage(folder).list_files()}
    missing = sorted(action_by_name.keys() - present.keys())
    states = {
        name: FileState.DAMAGED if present[name] != action["size_bytes"] else check_file(folder / name, level, action)
        for name, action in sorted(action_by_name.items())
        if name in present
    }
    damaged, wrong = (
        [name for name, state in states.items() if state is kind]
        for kind in (FileState.DAMAGED, FileState.WRONG_STATISTICS)
    )
    if wrong:
        # Without files: their rows are kept.
        return TableDamage(f"The statistics of the file {folder / wrong[0]} do not match its rows.")
    if missing:
        message = f"The table {folder} lacks {len(missing):,} of its {len(action_by_name):,} files, e.g. {missing[0]}."
    else:
        message = f"The file {folder / damaged[0]} is damaged." if damaged else ""
    return TableDamage(message, (*missing, *damaged)) if message else None


def _to_rows(actions: Any) -> list[dict[str, Any]]:
    # Imported here: it is slow to load.
    import pyarrow as pa

    rows: list[dict[str, Any]] = pa.table(actions).to_pylist()
    return rows


def _find_damaged_commit(folder: LakeLocation, *, is_deep: bool) -> str | None:
    """Name a file of the Delta log that is missing or damaged. deltalake takes an empty commit for one of no rows."""
    storage, name = open_storage(folder / DELTA_LOG_DIR), f"{folder.name}/{DELTA_LOG_DIR}"
    sizes = {entry.name: entry.size for entry in storage.list_files() if not entry.name.startswith(".")}
    # Older commits may be deleted at any time.
    checkpoint = max((int(file[:20]) for file in sizes if _CHECKPOINT_FILE.fullmatch(file)), default=0)
    versions = sorted(int(file[:20]) for file in sizes if COMMIT_FILE.fullmatch(file) and int(file[:20]) >= checkpoint)
    for version, following in pairwise(versions):
        if following != version + 1:
            return f"the commit {name}/{version + 1:020}.json is missing"
    for file, size in sorted(sizes.items()):
        if file.endswith((".json", ".parquet")) and not size:
            return f"the file {name}/{file} is empty"
        if is_deep and COMMIT_FILE.fullmatch(file) and not _is_ndjson(storage.read(file) or b""):
            return f"the file {name}/{file} is damaged"
        if is_deep and file.endswith(".parquet") and check_file(folder / DELTA_LOG_DIR / file, CheckLevel.FOOTERS):
            return f"the file {name}/{file} is damaged"
    return None


def _is_ndjson(content: bytes) -> bool:
    try:
        return all(isinstance(json.loads(line), dict) for line in content.splitlines() if line.strip())
    except ValueError:
        return False


def check_no_stray_tables(root: LakeLocation, names: Iterable[str]) -> None:
    """Raise if a folder without a manifest contains some tables of a lake with rows, but not all."""
    folders = [root / name for name in names]
    if not any(map(_has_files, folders)):
        return
    for folder in folders:
        damage = find_damage(folder)
        if damage is not None and damage.is_missing:
            raise ClewError(damage.message, hint=_RESTORE_HINT)


def _has_files(folder: LakeLocation) -> bool:
    return any(entry.name.endswith(".parquet") for entry in open_storage(folder).list_files())


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
