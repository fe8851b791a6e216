"""The Python processes of the Spark that this process has started, as the system tells of them."""

from __future__ import annotations

import os
import subprocess

from clew.pipeline.spark import worker_daemon


def daemons() -> set[int]:
    """What workers are forked from."""
    parents = _daemons_and_workers()
    return {pid for pid, parent in parents.items() if parent not in parents}


def workers() -> set[int]:
    """What works, and is forked anew when it was killed."""
    parents = _daemons_and_workers()
    return {pid for pid, parent in parents.items() if parent in parents}


def _daemons_and_workers() -> dict[int, int]:
    """Both kinds, each with its parent: a fork goes by the command of what it was forked from."""
    # Wide: where COLUMNS tells of a terminal, ps would cut commands at its edge.
    listing = ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="]
    listed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, *_ in rows}
    pythons = [int(pid) for pid, _, *command in rows if f"-m {worker_daemon.__name__}" in " ".join(command)]
    return {pid: parents[pid] for pid in pythons if os.getpid() in _ancestors(pid, parents)}


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    line = [pid]
    while line[-1] in parents:
        line.append(parents[line[-1]])
    return line
