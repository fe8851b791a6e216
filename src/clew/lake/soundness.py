"""Whether a lake is whole: looked at when it is opened, so that nothing is written beside what is left of one.

Without pyarrow, which takes long to load.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from deltalake.exceptions import DeltaError

from clew.errors import ClewError
from clew.home import LakePlace
from clew.lake.format import Marker, read_marker, require_lake
from clew.lake.storage import COMMITS, storage_at, table_names

_RESTORE = (
    "Nothing was changed. Restore it from a copy; or move lake, index and checkpoint away and run"
    " `clew pipeline run`: the log fills them again."
)


def require_sound_lake(root: LakePlace) -> None:
    """Refuse if there is no lake at `root`, or only half of one."""
    require_lake(root)
    marker = read_marker(root)
    if marker is not None:
        require_whole(root, marker)


def require_whole(root: LakePlace, marker: Marker) -> None:
    """Refuse a lake of which a table, its commits or its files are gone."""

    def require(name: str) -> None:
        folder, is_derived = root / name, name not in marker.tables
        if not is_derived:
            _require_commits(folder)
        hint = f"Delete the folder {folder}: the next `clew pipeline run` writes it anew." if is_derived else _RESTORE
        _require_files(folder, hint)

    names = (*marker.tables, *(name for name in table_names(root) if name not in marker.tables))
    list(storage_at(root).look_at_all(require, names))


def require_nothing_left(root: LakePlace, names: Iterable[str]) -> None:
    """Refuse a folder that says it is no lake, and yet holds some of a lake's tables with rows and lacks others."""
    folders = [root / name for name in names]
    has_rows = any(_has_files(folder) for folder in folders)
    for folder in folders:
        if has_rows:
            _require_commits(folder)


def _require_commits(folder: LakePlace) -> None:
    storage = storage_at(folder)
    if not storage.has_folder():
        raise ClewError(f"The lake {folder.parent} has lost its table {folder.name}.", hint=_RESTORE)
    if not storage.has_folder(COMMITS):
        message = f"The table {folder} has lost its folder {COMMITS}, which says what belongs to it."
        raise ClewError(message, hint=_RESTORE)


def _require_files(folder: LakePlace, hint: str) -> None:
    try:
        table = storage_at(folder.parent).open_table(folder.name)
        named = {unquote(uri.rpartition("/")[2]) for uri in table.file_uris()}
    except (DeltaError, OSError, ValueError) as fault:
        raise ClewError(f"The table {folder} cannot be opened: {_first_line(fault)}.", hint=hint) from fault
    missing = sorted(named - {entry.name for entry in storage_at(folder).entries()})
    if missing:
        message = f"The table {folder} has lost {len(missing):,} of its {len(named):,} files, {missing[0]} for one."
        raise ClewError(message, hint=hint)


def _has_files(folder: LakePlace) -> bool:
    return any(entry.name.endswith(".parquet") for entry in storage_at(folder).entries())


def _first_line(fault: BaseException) -> str:
    lines = str(fault).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(fault).__name__
