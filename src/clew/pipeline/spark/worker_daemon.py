"""The process from which Spark forks Python workers, with all modules preloaded; heap of the workers.

Spark starts it as `python -m clew.pipeline.spark.worker_daemon pyspark.worker`. It saves one second of CPU per worker.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from pyspark.daemon import manager

_WORKER = "pyspark.worker"
_PRELOAD = (_WORKER, "clew.pipeline.sources.log_source", "clew.pipeline.workers")


class HidePandas(MetaPathFinder):
    """Import hook that hides pandas, which pyarrow would import with its first array."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)
        return None


def preload(worker: str) -> None:
    """Import the modules that the workers of this daemon need before they are forked."""
    sys.meta_path.insert(0, HidePandas())
    # Forking a process with running threads is unsafe: numpy would start some on import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if worker != _WORKER:
        return
    for name in _PRELOAD:
        import_module(name)
    # Workers create no reference cycles. Spark's loop collects garbage between tasks.
    gc.freeze()
    gc.disable()


def trim_heap() -> None:
    """Return free heap memory to the system, which glibc would hold for reuse."""
    library = ctypes.CDLL(None)
    # Only available in glibc.
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


if __name__ == "__main__":
    preload(sys.argv[1])
    manager()
