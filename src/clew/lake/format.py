"""The lake's format number, in a file beside its tables. Free of any engine, so that a look at it costs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from clew import __version__
from clew.errors import ClewError

# Raised when a change to the tables cannot be read by an older program.
LAKE_FORMAT: Final = 1
_FILE = "clew.json"


def has_format(root: Path) -> bool:
    """Whether there is a lake at `root` already; one that a newer clew has written is refused."""
    marker = root / _FILE
    if not marker.exists():
        return False
    _check(marker)
    return True


def write_format(root: Path) -> None:
    """Say that the lake at `root` is made, and in which format."""
    (root / _FILE).write_text(json.dumps({"format": LAKE_FORMAT, "written_by": __version__}) + "\n")


def require_lake(root: Path) -> None:
    """Refuse if there is no lake at `root`."""
    if not has_format(root):
        hint = "It comes to be with the first `clew pipeline run`. Another home is named with --home DIR."
        raise ClewError(f"There is no lake at {root} yet.", hint=hint)


def _check(marker: Path) -> None:
    try:
        found: dict[str, Any] = json.loads(marker.read_text())
        version = int(found["format"])
    except (ValueError, KeyError, TypeError) as fault:
        message = f"{marker} does not say which format the lake has."
        hint = "Restore the file from a copy, or build the lake anew from the log."
        raise ClewError(message, hint=hint) from fault
    if version > LAKE_FORMAT:
        message = (
            f"The lake {marker.parent} has format {version}, written by clew {found.get('written_by', 'unknown')};"
            f" this is clew {__version__}, which reads up to format {LAKE_FORMAT}."
        )
        raise ClewError(message, hint="Upgrade: pip install -U clew. Nothing was changed.")
