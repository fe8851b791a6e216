"""Process ids of the Python workers of this process's Spark."""

from __future__ import annotations

import os
import subprocess

from clew.pipeline.spark import worker_daemon


def list_worker_pids() -> set[int]:
    """List the workers; a killed worker is replaced by a new fork."""
    parents = _daemons_and_workers()
    return {pid for pid, parent in parents.items() if parent in parents}


def _daemons_and_workers() -> dict[int, int]:
    """Map daemons and workers to their parent; a fork has the command line of its parent."""
    # -ww: ps would truncate commands at COLUMNS.
    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in output.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, *_ in rows}
    pids = [int(pid) for pid, _, *words in rows if f"-m {worker_daemon.__name__}" in " ".join(words)]
    return {pid: parents[pid] for pid in pids if os.getpid() in _ancestors(pid, parents)}


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    ancestors = [pid]
    while ancestors[-1] in parents:
        ancestors.append(parents[ancestors[-1]])
    return ancestors
