"""clew: where did this column come from? Lineage for notebooks and pipelines, from one log of events."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.capture.lineage import Edge, version
    from clew.capture.tracking import track
    from clew.client import AsyncClient, Client
    from clew.notebook.asking import explain, lineage

__version__ = "0.1.0"
__all__ = ["AsyncClient", "Client", "Edge", "__version__", "explain", "lineage", "track", "version"]

# Loaded when first asked for: `import clew` must cost next to nothing in a notebook.
_HOMES = {
    "AsyncClient": "clew.client",
    "Client": "clew.client",
    "Edge": "clew.capture.lineage",
    "explain": "clew.notebook.asking",
    "lineage": "clew.notebook.asking",
    "version": "clew.capture.lineage",
    "track": "clew.capture.tracking",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    import importlib

    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


# `df.lineage`, for whoever has imported pandas before; a pandas that is just being imported has no frames yet.
if hasattr(sys.modules.get("pandas"), "DataFrame"):
    import importlib

    importlib.import_module("clew.pandas")
