"""The manifest of a lake: format version, id and tables. Imports no engine, so that reading it is cheap."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from clew import __version__
from clew.errors import ClewError
from clew.events.facet_order import FacetOrder
from clew.home import LakeLocation
from clew.lake.storage import open_storage

# Increased when tables change incompatibly. 2: renamed tables and columns (`dataset_aliases`, `facet_error`, ...).
LAKE_FORMAT_VERSION: Final = 2
_FILE: Final = "manifest.json"
# Name of the manifest in format 1.
_OLD_FILE: Final = "clew.json"


@dataclass(frozen=True)
class LakeManifest:
    """Content of the manifest file. `tables` are the source tables that must exist."""

    format_version: int
    written_by: str
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
    recreate = (
        "Nothing was changed. Keep the log; move lake, index and checkpoint away and run `clew pipeline run`,"
        " which recreates them from the log."
    )
    raise ClewError(message, hint=upgrade if manifest.format_version > LAKE_FORMAT_VERSION else recreate)


def write_manifest(root: LakeLocation, tables: Iterable[str], facet_order: FacetOrder | None = None) -> LakeManifest:
    """Write the manifest of the lake at `root`; an existing id and, unless given, facet order are preserved."""
    existing = read_manifest(root)
    order = facet_order or (existing.facet_order if existing else FacetOrder.RECEIVED)
    lake_id = (existing and existing.id) or str(uuid.uuid4())
    manifest = LakeManifest(LAKE_FORMAT_VERSION, __version__, lake_id, tuple(tables), order)
    open_storage(root).replace(_FILE, f"{json.dumps(asdict(manifest))}\n".encode())
    return manifest


def require_lake(root: LakeLocation) -> None:
    """Raise if there is no lake at `root`."""
    if not lake_exists(root):
        hint = "It is created by the first `clew pipeline run`. Pass --home DIR for another data directory."
        raise ClewError(f"There is no lake at {root} yet.", hint=hint)


def _parse(path: LakeLocation, text: bytes) -> LakeManifest:
    try:
        values: dict[str, Any] = json.loads(text)
        version = values["format_version"] if "format_version" in values else values["format"]
        tables = tuple(map(str, values.get("tables", ())))
        order = FacetOrder(values.get("facet_order", FacetOrder.RECEIVED))
        return LakeManifest(int(version), str(values.get("written_by", "unknown")), values.get("id"), tables, order)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{path} is not a valid lake manifest."
        hint = "Restore the file from a backup; or recreate lake, index and checkpoint with `clew pipeline run`."
        raise ClewError(message, hint=hint) from error
