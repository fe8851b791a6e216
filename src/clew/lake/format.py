"""What a lake says of itself, in a file beside its tables. Free of any engine, so that a look at it costs nothing."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from clew import __version__
from clew.errors import ClewError
from clew.events.facet_order import FacetOrder
from clew.home import LakePlace
from clew.lake.storage import storage_at

# Raised when a change to the tables cannot be read by an older program.
LAKE_FORMAT: Final = 1
_FILE = "clew.json"


@dataclass(frozen=True)
class Marker:
    """The lake's format, who made it, its id, and the event tables that were made: one that is gone is missed.

    `facet_order` says which of several facets of one name counts.
    """

    format: int
    written_by: str
    id: str | None = None
    tables: tuple[str, ...] = ()
    facet_order: FacetOrder = FacetOrder.RECEIVED


def has_format(root: LakePlace) -> bool:
    """Whether there is a lake at `root` already; one that a newer clew has written is refused."""
    return read_marker(root) is not None


def read_marker(root: LakePlace) -> Marker | None:
    """What the lake at `root` says of itself; None if there is none. A newer one is refused."""
    path = root / _FILE
    try:
        text = storage_at(root).read(_FILE)
    except OSError as fault:
        hint = "Mend its permissions, or choose another folder with --home DIR or --lake PATH."
        raise ClewError(f"{path} cannot be read: {fault.strerror}.", hint=hint) from fault
    if text is None:
        return None
    found = _parsed(path, text)
    if found.format > LAKE_FORMAT:
        message = (
            f"The lake {root} has format {found.format}, written by clew {found.written_by};"
            f" this is clew {__version__}, which reads up to format {LAKE_FORMAT}."
        )
        raise ClewError(message, hint="Upgrade: pip install -U clew. Nothing was changed.")
    return found


def write_format(root: LakePlace, tables: Iterable[str], facet_order: FacetOrder | None = None) -> Marker:
    """Say that the lake at `root` is made, with these event tables; its id stays, and its order unless one is given."""
    known = read_marker(root)
    order = facet_order or (known.facet_order if known else FacetOrder.RECEIVED)
    marker = Marker(LAKE_FORMAT, __version__, (known and known.id) or str(uuid.uuid4()), tuple(tables), order)
    storage_at(root).replace(_FILE, f"{json.dumps(asdict(marker))}\n".encode())
    return marker


def require_lake(root: LakePlace) -> None:
    """Refuse if there is no lake at `root`."""
    if not has_format(root):
        hint = "It comes to be with the first `clew pipeline run`. Another home is named with --home DIR."
        raise ClewError(f"There is no lake at {root} yet.", hint=hint)


def _parsed(path: LakePlace, text: bytes) -> Marker:
    try:
        found: dict[str, Any] = json.loads(text)
        tables = tuple(map(str, found.get("tables", ())))
        order = FacetOrder(found.get("facet_order", FacetOrder.RECEIVED))
        return Marker(int(found["format"]), str(found.get("written_by", "unknown")), found.get("id"), tables, order)
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        message = f"{path} does not say which format the lake has."
        hint = "Restore the file from a copy, or build the lake anew from the log."
        raise ClewError(message, hint=hint) from fault
