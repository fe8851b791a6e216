"""clew: column-level data lineage for notebooks and pipelines, from one log of OpenLineage events."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.capture.lineage.query import Edge, version
    from clew.capture.tracking import track
    from clew.client import AsyncClient, Client
    from clew.display.api import explain, lineage

__version__ = "0.2.0"
__all__ = ["AsyncClient", "Client", "Edge", "__version__", "explain", "lineage", "track", "version"]

# Loaded on first access: `import clew` must be cheap in a notebook.
_LAZY_MODULES = {
    "AsyncClient": "clew.client",
    "Client": "clew.client",
    "Edge": "clew.capture.lineage.query",
    "explain": "clew.display.api",
    "lineage": "clew.display.api",
    "version": "clew.capture.lineage.query",
    "track": "clew.capture.tracking",
}


def __getattr__(name: str) -> Any:
    module = _LAZY_MODULES.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    import importlib

    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


# Register `df.lineage` if pandas is already imported. A pandas that is still being imported has no DataFrame yet.
if hasattr(sys.modules.get("pandas"), "DataFrame"):
    import importlib

    importlib.import_module("clew.pandas")
