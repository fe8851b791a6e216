"""Whether a lake is whole: looked at when it is opened, so that nothing is written beside what is left of one.

Without pyarrow, which takes long to load.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from clew.errors import ClewError
from clew.lake.format import Marker, read_marker, require_lake

_COMMITS = "_delta_log"
_RESTORE = (
    "Nothing was changed. Restore it from a copy; or move lake, index and checkpoint away and run"
    " `clew pipeline run`: the log fills them again."
)


def require_sound_lake(root: Path) -> None:
    """Refuse if there is no lake at `root`, or only half of one."""
    require_lake(root)
    marker = read_marker(root)
    if marker is not None:
        require_whole(root, marker)


def require_whole(root: Path, marker: Marker) -> None:
    """Refuse a lake of which a table, its commits or its files are gone."""
    for name in marker.tables:
        _require_commits(root / name)
        _require_files(root / name, _RESTORE)
    derived = sorted(folder.parent for folder in root.glob(f"*/{_COMMITS}") if folder.parent.name not in marker.tables)
    for folder in derived:
        _require_files(folder, f"Delete the folder {folder}: the next `clew pipeline run` writes it anew.")


def require_nothing_left(root: Path, names: Iterable[str]) -> None:
    """Refuse a folder that says it is no lake, and yet holds some of a lake's tables with rows and lacks others."""
    folders = [root / name for name in names]
    has_rows = any(next(folder.glob("*.parquet"), None) for folder in folders)
    for folder in folders:
        if has_rows:
            _require_commits(folder)


def _require_commits(folder: Path) -> None:
    if not folder.is_dir():
        raise ClewError(f"The lake {folder.parent} has lost its table {folder.name}.", hint=_RESTORE)
    if not (folder / _COMMITS).is_dir():
        message = f"The table {folder} has lost its folder {_COMMITS}, which says what belongs to it."
        raise ClewError(message, hint=_RESTORE)


def _require_files(folder: Path, hint: str) -> None:
    try:
        named = {unquote(Path(uri).name) for uri in DeltaTable(str(folder)).file_uris()}
    except (DeltaError, OSError, ValueError) as fault:
        raise ClewError(f"The table {folder} cannot be opened: {_first_line(fault)}.", hint=hint) from fault
    missing = sorted(named - {path.name for path in folder.iterdir()})
    if missing:
        message = f"The table {folder} has lost {len(missing):,} of its {len(named):,} files, {missing[0]} for one."
        raise ClewError(message, hint=hint)


def _first_line(fault: BaseException) -> str:
    lines = str(fault).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(fault).__name__
