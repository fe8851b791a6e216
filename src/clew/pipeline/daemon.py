"""The process from which Spark forks Python workers: what they all need is loaded here once, and shared.

Spark starts it as `python -m clew.pipeline.daemon pyspark.worker`. Without it every worker loads for a second of CPU.
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

from clew.pipeline.memory import giving_back, reuse

# In the environment of functions that move events. Spark keeps workers of another environment apart: one that names
# ranges of the log, and is done at once, would give back the memory that a batch has left for the next.
MOVES_EVENTS = "CLEW_MOVES_EVENTS"
_WORKER = "pyspark.worker"
_NEEDED = (_WORKER, "clew.pipeline.worker", "clew.pipeline.backfill_worker", "clew.pipeline.rebuild_worker")
_NEEDED_FOR_RANGES = (_WORKER, "clew.pipeline.source")


class NoPandas(MetaPathFinder):
    """Keeps pandas out: pyarrow loads it with its first array, where it is installed, and no worker needs it."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Say that it is not installed."""
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)
        return None


def prepare(worker: str) -> None:
    """Load what the workers of this daemon will need; other kinds than those that move events need little."""
    sys.meta_path.insert(0, NoPandas())
    # A fork must not copy a process with threads at work: numpy's would start when it is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if worker != _WORKER:
        return
    moves_events = MOVES_EVENTS in os.environ
    for name in _NEEDED if moves_events else _NEEDED_FOR_RANGES:
        import_module(name)
    if moves_events:
        # Spark keeps a worker for its next task, and an idle one must not keep the memory of the last.
        workers = sys.modules[_WORKER]
        vars(workers)["main"] = giving_back(vars(workers)["main"])
        reuse()
    # Nothing that workers make stands in cycles, so looking for them is in vain. Spark's loop does between tasks.
    gc.freeze()
    gc.disable()


if __name__ == "__main__":
    prepare(sys.argv[1])
    manager()
