"""The process from which Spark forks Python workers, with all modules preloaded.

Spark starts it as `python -m clew.pipeline.spark.worker_daemon pyspark.worker`. It saves one second of CPU per worker.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from pyspark.daemon import manager

from clew.pipeline.spark.worker_memory import trims_heap_after, tune_malloc

# Set for functions that process events. Spark has a worker pool per environment: in a shared pool, tasks of the data
# source would trim the heap that the next batch reuses.
EVENT_WORKER_ENV = "CLEW_EVENT_WORKER"
_WORKER = "pyspark.worker"
_PRELOAD = (_WORKER, "clew.pipeline.workers")
_PRELOAD_SOURCE = (_WORKER, "clew.pipeline.log_source")


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
    is_event_worker = EVENT_WORKER_ENV in os.environ
    for name in _PRELOAD if is_event_worker else _PRELOAD_SOURCE:
        import_module(name)
    if is_event_worker:
        # Spark reuses workers, and an idle worker must not hold the memory of its last task.
        workers = sys.modules[_WORKER]
        vars(workers)["main"] = trims_heap_after(vars(workers)["main"])
        tune_malloc()
    # Workers create no reference cycles. Spark's loop collects garbage between tasks.
    gc.freeze()
    gc.disable()


if __name__ == "__main__":
    preload(sys.argv[1])
    manager()
